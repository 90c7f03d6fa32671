//go:build vm

package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"pandastack/test/harness"
)

// shells are interactive ones, each set up in a folder of its own as the help of
// `pandastack completion` says. The prompt is "ready> ".
var shells = map[string]struct {
	files map[string]string // below the home folder; %s is the completion script
	start []string
}{
	"bash": {map[string]string{
		"script": "%s",
		"rc":     "PS1='ready> '\n. ~/script\n",
	}, []string{"bash", "--noprofile", "--rcfile", "rc", "-i"}},
	"zsh": {map[string]string{
		"functions/_pandastack": "%s",
		".zshrc":                "fpath=(~/functions $fpath)\nautoload -Uz compinit && compinit -u\nPS1='ready> '\n",
	}, []string{"zsh", "-i"}},
	"fish": {map[string]string{
		".config/fish/completions/pandastack.fish": "%s",
		".config/fish/config.fish":                 "function fish_prompt; echo -n 'ready> '; end\nset fish_greeting\n",
	}, []string{"fish", "-i"}},
}

// TestCompletionInShells presses Tab where users do. A server names the templates.
func TestCompletionInShells(t *testing.T) {
	server := harness.Start(t, harness.NewDir(t))
	for name, shell := range shells {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			script := program{dir: server.Dir}.ok(t, "completion", name)
			for file, text := range shell.files {
				if text == "%s" {
					text = script
				}
				write(t, filepath.Join(home, file), text)
			}
			write(t, filepath.Join(home, "analysis.py"), "")
			cmd := exec.Command(shell.start[0], shell.start[1:]...)
			cmd.Dir = home
			cmd.Env = append(os.Environ(), "HOME="+home, "ZDOTDIR="+home, "XDG_CONFIG_HOME="+filepath.Join(home, ".config"),
				"PATH="+filepath.Dir(harness.Binary())+":"+os.Getenv("PATH"), "TERM=xterm", "LC_ALL=C.UTF-8",
				"PANDASTACK_DATA_DIR="+server.Dir, "PANDASTACK_API=", "PANDASTACK_API_KEY=")
			terminal := open(t, cmd)
			terminal.await("ready> ")
			for line, rest := range map[string]string{
				"pandastack templ":                    "ate ",
				"pandastack template get co":          "de-interpreter ",
				"pandastack completion f":             "ish ",
				"pandastack run ana":                  "lysis.py ",
				"pandastack sandbox create --templa":  "te ",
				"pandastack run --template code-inte": "rpreter ",
			} {
				terminal.complete(line, rest)
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
