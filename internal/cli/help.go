package cli

// Help of each command is shown below its first line. Indented lines stay as
// they are.

func (runCmd) Help() string {
	return `The file is copied to /workspace and run in a kernel, as a cell of a notebook: the value of its last expression is printed too.
sys.argv and __file__ are set. The exit code is 1 when the code raised, 124 when it ran into --timeout, and what the code gave to
sys.exit otherwise. What it asks with input() and getpass() is answered from standard input. Where no server runs, one is started for
this command alone. Options come before a script: what follows it is for the script. A notebook's may follow it; its kernelspec and the
tags raises-exception and skip-execution of its cells are heeded.

Examples:

  pandastack run analysis.py sales.csv --top 10
  pandastack run -c 'import sys; sys.version'
  pandastack run --save charts plot.py
  pandastack run report.ipynb -o report-done.ipynb
  echo Ada | pandastack run -c 'print("hello,", input("name? "))'
  echo 'print(6*7)' | pandastack run -`
}

func (attachCmd) Help() string {
	return `Prints what the cell has shown so far and goes on as it comes. The exit code is that of 'run': 1 when the code raised, 124 when it ran into
its limit. What the cell asks is asked at a terminal. Ctrl-C ends this command only: the cell goes on. 'pandastack context cells' has the ids.

Examples:

  pandastack attach SANDBOX EXECUTION
  pandastack attach --follow all SANDBOX EXECUTION
  pandastack attach --follow none --json SANDBOX EXECUTION | jq .status`
}

func (contextLsCmd) Help() string {
	return `A context is a kernel that keeps its variables from cell to cell.

Examples:

  pandastack context ls SANDBOX
  pandastack context ls --json SANDBOX | jq -r '.[].id'`
}

func (contextCellsCmd) Help() string {
	return `A sandbox keeps its latest 256 cells. Their ids are what 'pandastack attach' takes.

Examples:

  pandastack context cells SANDBOX CONTEXT
  pandastack context cells --json SANDBOX CONTEXT | jq -r '.[] | select(.status == "running").id'`
}

func (contextExportCmd) Help() string {
	return `The cells are those of the kernel there is. They have the outputs that the sandbox still keeps: those of its latest 256 cells, also what threads
printed later. The metadata of a cell without says so. A context that runs a cell cannot be exported.

Examples:

  pandastack context export SANDBOX CONTEXT -o session.ipynb
  pandastack context export SANDBOX CONTEXT | jq '.cells | length'`
}

func (execCmd) Help() string {
	return `Output comes as it is written. The exit code is the command's own, 128 + the signal's number when a signal ended it, 124 when it
ran into --timeout, 126 or 127 when it cannot be run or is not there. What is piped into this command is read to its end and given to the command in the sandbox.

Examples:

  pandastack exec SANDBOX -- ls -la /workspace
  pandastack exec SANDBOX -- sh -c 'pip list | wc -l'
  pandastack exec -e DEBUG=1 --cwd /tmp --timeout 10 SANDBOX -- ./build.sh
  pandastack exec SANDBOX -- sort <names.txt`
}

func (cpCmd) Help() string {
	return `Folders are copied with all that is in them. A target that is a folder gets the copy under its own name; FOLDER/. means what is in the
folder. Relative paths of a sandbox are below /workspace. Symbolic links and devices are left out and named, and the exit code is then 1.
A copy out of a sandbox never writes outside the target, whatever its files are called.

Examples:

  pandastack cp sales.csv SANDBOX:
  pandastack cp ./project SANDBOX:/srv
  pandastack cp SANDBOX:/workspace/chart.png .
  pandastack cp SANDBOX:results/. ./results`
}

func (logsCmd) Help() string {
	return `The console has what the guest's kernel and its agent write.

Examples:

  pandastack logs SANDBOX
  pandastack logs -f --agent SANDBOX`
}

func (sandboxCreateCmd) Help() string {
	return `Another size than the template's is baked when first asked for, which takes minutes; the command waits for that.

Examples:

  pandastack sandbox create
  pandastack sandbox create --cpu 2 --memory 2048
  pandastack sandbox create --from-snapshot loaded
  pandastack sandbox create --idle-timeout 600 --on-timeout hibernate
  pandastack sandbox create --ttl 3600 --metadata owner=ada --metadata job=17
  id=$(pandastack sandbox create) && pandastack exec "$id" -- uname -a`
}

func (sandboxLsCmd) Help() string {
	return `Examples:

  pandastack sandbox ls
  pandastack sandbox ls --json | jq -r '.[].id'`
}

func (sandboxGetCmd) Help() string {
	return `Shows also what it uses at this moment. Memory and disk of this host are what it has for itself, beside what it shares with others
of its template.

Examples:

  pandastack sandbox get SANDBOX
  pandastack sandbox get --json SANDBOX | jq .usage`
}

func (sandboxRmCmd) Help() string {
	return `Prints the id of each that is gone. One that cannot be removed does not keep the others.

Examples:

  pandastack sandbox rm SANDBOX
  pandastack sandbox rm --all`
}

func (templateLsCmd) Help() string {
	return `Examples:

  pandastack template ls
  pandastack template ls --json`
}

func (templateGetCmd) Help() string {
	return `Examples:

  pandastack template get code-interpreter
  pandastack template get --json code-interpreter | jq .packages.python`
}

func (buildCmd) Help() string {
	return `What was built before is not built again; a build that was interrupted goes on where it stopped.

Examples:

  pandastack template build code-interpreter
  pandastack template build --refresh code-interpreter`
}

func (serveCmd) Help() string {
	return `Every option can also be given in the environment (PANDASTACK_LISTEN for --listen) or in the configuration file. The server ends
with Ctrl-C or SIGTERM; its sandboxes go on, and the next server finds them.

Examples:

  pandastack serve
  pandastack serve --listen 0.0.0.0:7070 --allow-host sandboxes.example.com
  pandastack serve --data-dir ~/panda --listen 127.0.0.1:0 --log-format json`
}

func (downCmd) Help() string {
	return `Ends also sandboxes that an earlier server has left running. Returns when all is gone; images and templates stay.

Examples:

  pandastack down
  pandastack down --data-dir ~/panda`
}

func (doctorCmd) Help() string {
	return `The exit code is 1 when something is missing without which nothing runs.

Examples:

  pandastack doctor
  pandastack doctor --json`
}

func (completionCmd) Help() string {
	return `Examples:

  pandastack completion bash >/etc/bash_completion.d/pandastack
  pandastack completion zsh >"${fpath[1]}/_pandastack"
  pandastack completion fish >~/.config/fish/completions/pandastack.fish`
}

func (versionCmd) Help() string {
	return `Examples:

  pandastack version
  pandastack version --json`
}

func (templateRmCmd) Help() string {
	return `Examples:

  pandastack template rm my-template`
}

func (pruneCmd) Help() string {
	return `Examples:

  pandastack template prune
  pandastack template prune --json`
}
