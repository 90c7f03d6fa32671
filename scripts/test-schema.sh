#!/usr/bin/env bash
# schemathesis against the server that PANDASTACK_API and PANDASTACK_API_KEY name: what it answers must be what
# api/openapi.json says. Usage: test-schema.sh [ARGUMENT…]   More arguments go to schemathesis.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${PANDASTACK_API:?names the server}" "${PANDASTACK_API_KEY:?is its key}"
env=build/schemathesis
scripts/python-env.sh $env test/schema/requirements.txt -- -r test/schema/requirements.txt

auth="Authorization: Bearer $PANDASTACK_API_KEY"
create() { # PATH   prints the new thing's id
  curl -sS --fail-with-body --max-time 300 -X POST -H "$auth" "$PANDASTACK_API/v1/$1" |
    "$env/bin/python" -c 'import json, sys; print(json.load(sys.stdin)["id"])'
}
PANDASTACK_TEST_SANDBOX=$(create sandboxes)
finish() { # fails when the sandbox did not live to the end
  local code=$?
  curl -sS --fail-with-body --max-time 60 -X DELETE -H "$auth" "$PANDASTACK_API/v1/sandboxes/$PANDASTACK_TEST_SANDBOX" || code=1
  exit $code
}
trap finish EXIT
PANDASTACK_TEST_CONTEXT=$(create "sandboxes/$PANDASTACK_TEST_SANDBOX/contexts")
export PANDASTACK_TEST_SANDBOX PANDASTACK_TEST_CONTEXT

# Sandboxes are made by other tests; here each would be a machine. One that is paused or asleep would refuse or delay what follows.
PYTHONPATH=test/schema SCHEMATHESIS_HOOKS=hooks "$env/bin/st" --config-file test/schema/schemathesis.toml \
  run api/openapi.json --url "$PANDASTACK_API" --header "$auth" \
  --phases examples,coverage,fuzzing --max-examples "${PANDASTACK_TEST_EXAMPLES:-10}" --max-time 150 \
  --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,response_headers_conformance \
  --exclude-operation-id create-sandbox --exclude-operation-id fork-sandbox --exclude-operation-id fork-tree \
  --exclude-operation-id pause-sandbox --exclude-operation-id hibernate-sandbox --generation-deterministic --request-timeout 60 --continue-on-failure --no-color "$@"
