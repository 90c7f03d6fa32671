//go:build vm

package cli

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pandastack/test/harness"
)

var update = flag.Bool("update", false, "write docs/cli.md anew")

const preface = `# The command line

` + "`pandastack --help` and `pandastack COMMAND --help` describe every command and option, with examples. What follows is a session as it\n" +
	"was typed; a test ran it and wrote this page (`go test -tags vm ./test/cli -run Transcript -update`).\n"

// chapter is a part of the session.
type chapter struct {
	title, text string
	commands    []string
}

var session = []chapter{
	{"Run something", "No server is needed for one piece of code: one is started for as long as it takes. The value of the last expression is printed too.", []string{
		`pandastack run -c 'import platform; platform.machine()'`,
	}},
	{"A server", "Everything else asks a running server. It is found by its data directory; `--api` and `--api-key` name another one.", []string{
		`pandastack serve >server.log 2>&1 &`,
		`cat <<'END' >top.py
import sys, pandas as pd
df = pd.DataFrame({"city": ["Bern", "Oslo", "Lima"], "sold": [3, 9, 5]})
df.nlargest(int(sys.argv[1]), "sold")
END`,
		`pandastack run top.py 2`,
		`pandastack run --save charts -c 'import matplotlib.pyplot as plt; plt.plot([1, 4, 9]); plt.show()'`,
		`ls charts`,
		`echo '{}["missing"]' | pandastack run -`,
		`echo $?`,
		`echo Ada | pandastack run -c 'print("hello,", input("name? "))'`,
	}},
	{"Cells and notebooks", "A context is a kernel that keeps its variables; its cells are executions, of whatever client. `attach` follows one that runs, and shows again what one gave\n" +
		"that has ended. All that a context ran is a notebook.", []string{
		`pandastack run --keep -c 'print("counted"); 6 * 7'`,
		`kept=$(pandastack sandbox ls --json | jq -r '.[0].id')`,
		`pandastack context ls $kept`,
		`context=$(pandastack context ls --json $kept | jq -r '.[0].id')`,
		`pandastack context cells $kept $context`,
		`pandastack attach $kept $(pandastack context cells --json $kept $context | jq -r '.[-1].id')`,
		`pandastack context export $kept $context -o session.ipynb`,
		`jq -c '.cells[-1].outputs[].output_type' session.ipynb`,
		`pandastack run session.ipynb -o again.ipynb`,
		`pandastack sandbox rm $kept`,
	}},
	{"A sandbox that stays", "", []string{
		`box=$(pandastack sandbox create --ttl 3600 --metadata owner=ada)`,
		`pandastack sandbox ls`,
		`pandastack exec $box -- sh -c 'uname -s; id -un'`,
		`printf 'pear\nfig\n' | pandastack exec $box -- sort`,
		`pandastack exec $box -- sh -c 'kill -9 $$'`,
		`echo $?`,
		`pandastack exec --timeout 1 $box -- sleep 60`,
	}},
	{"Files", "A folder that exists gets the copy under its own name; `FOLDER/.` means what is in it.", []string{
		`mkdir -p project/data && echo 'Zürich,1' >project/data/städte.csv`,
		`pandastack cp project $box:`,
		`pandastack exec $box -- find project -type f`,
		`pandastack cp $box:project/data/. copy && cat copy/städte.csv`,
	}},
	{"What it is and what it uses", "", []string{
		`pandastack sandbox get $box`,
		`pandastack sandbox get --json $box | grep -c host_private_bytes`,
		`pandastack logs $box`,
		`pandastack template ls`,
	}},
	{"Rest, snapshots and copies", "A sandbox sleeps on disk, is saved for others to go on from, and copied as it is at one moment. What runs in it goes on in all of them.", []string{
		`pandastack exec $box -- sh -c 'echo loaded >state; cat state'`,
		`pandastack sandbox hibernate $box`,
		`pandastack exec $box -- cat state   # which wakes it`,
		`pandastack sandbox snapshot --name loaded $box`,
		`pandastack snapshot ls`,
		`again=$(pandastack sandbox create --from-snapshot loaded)`,
		`pandastack exec $again -- cat state`,
		`copy=$(pandastack sandbox fork $box) && pandastack sandbox ls`,
		`pandastack sandbox rm $again $copy && pandastack snapshot rm loaded`,
	}},
	{"The end", "Mistakes are one line, with what to do about them. `down` stops the server and removes all its sandboxes.", []string{
		`pandastack sandbox rm nosuchsandbox`,
		`pandastack sandbox rm $box`,
		`pandastack down`,
		`pandastack sandbox ls`,
	}},
}

const marker = "\x1e"

// script runs the commands in one shell, with a line before the output of each.
func script() string {
	var s strings.Builder
	s.WriteString("exec 2>&1\n")
	for _, c := range session {
		for _, command := range c.commands {
			fmt.Fprintf(&s, "status=$?; echo '%s'; (exit $status)\n%s\n", marker, command)
			if strings.HasPrefix(command, "pandastack serve") {
				s.WriteString("until pandastack sandbox ls >/dev/null 2>&1; do sleep 0.1; done\n")
			}
		}
	}
	return s.String()
}

func TestTranscript(t *testing.T) {
	dir, work := harness.NewDir(t), t.TempDir()
	if err := os.Symlink(harness.Binary(), filepath.Join(work, "pandastack")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*commandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script())
	cmd.Dir = filepath.Join(work, "home")
	if err := os.Mkdir(cmd.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), "PATH="+work+":"+os.Getenv("PATH"), "PANDASTACK_DATA_DIR="+dir,
		"PANDASTACK_API=", "PANDASTACK_API_KEY=", "PANDASTACK_LISTEN=127.0.0.1:0", "LC_ALL=C.UTF-8")
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	got := page(strings.Split(string(out), marker+"\n")[1:], dir)
	path := filepath.Join(harness.Root(), "docs", "cli.md")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if steady(got) != steady(string(want)) {
		t.Errorf("docs/cli.md is not what the commands print now; -update writes it anew.\n--- now, without what varies\n%s\n--- docs/cli.md\n%s",
			steady(got), steady(string(want)))
	}
}

// page puts commands and outputs together.
func page(outputs []string, dir string) string {
	var s strings.Builder
	s.WriteString(preface)
	n := 0
	for _, c := range session {
		fmt.Fprintf(&s, "\n## %s\n\n", c.title)
		if c.text != "" {
			s.WriteString(c.text + "\n\n")
		}
		s.WriteString("```console\n")
		for _, command := range c.commands {
			s.WriteString("$ " + command + "\n")
			if n < len(outputs) {
				s.WriteString(outputs[n])
			}
			n++
		}
		s.WriteString("```\n")
	}
	return strings.ReplaceAll(s.String(), dir, "/var/lib/pandastack")
}

// varying is what differs from run to run.
var varying = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\b[a-z0-9]{20}([a-z0-9]{6})?\b`), "ID"}, // an execution's is longer where a client chose it
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC`), "TIME"},
	{regexp.MustCompile(`(?m)^(time=\S+ level=INFO msg=resumed .*\n)+`), "resumed\n"}, // twice where a machine waited ready
	{regexp.MustCompile(`(?m)^  [a-z-]+ +[0-9.]+ ms\n`), ""},                          // the steps of a start
	{regexp.MustCompile(`(?m)^(\S+) +(ready|not_built|building|failed) .* MiB .*$`), "$1 and what is known of it"},
	{regexp.MustCompile(`(ready|restored|booted) in \d+ ms`), "started in N ms"},
	{regexp.MustCompile(`\d+(\.\d+)? ?(B|kB|MB|GB|ms|s|m|h|d)\b`), "N"},
	{regexp.MustCompile(`process \d+`), "process N"},
	{regexp.MustCompile(`[ -]{2,}`), "  "}, // columns are as wide as what is in them
}

// steady is the page without what varies.
func steady(page string) string {
	for _, v := range varying {
		page = v.pattern.ReplaceAllString(page, v.with)
	}
	return page
}
