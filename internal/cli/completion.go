package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"pandastack/client"
)

// completionTime is how long a shell may wait for the server's names.
const completionTime = 2 * time.Second

// The shells' scripts ask this program what could come next, and offer files
// where it has nothing to say.
var completionScripts = map[string]string{
	"bash": `_pandastack() {
  local IFS=$'\n'
  COMPREPLY=($(pandastack __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _pandastack pandastack
`,
	"zsh": `#compdef pandastack
_pandastack() {
  local -a found
  found=("${(@f)$(pandastack __complete -- "${(@)words[2,$CURRENT]}" 2>/dev/null)}")
  if [[ -n "${found[1]}" ]]; then
    compadd -- "${found[@]}"
  else
    _files
  fi
}
if [[ ${funcstack[1]} == _pandastack ]]; then
  _pandastack "$@" # loaded from fpath: the first call is the one that loads
else
  compdef _pandastack pandastack
fi
`,
	"fish": `complete -c pandastack -a '(pandastack __complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'
`,
}

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (c *completionCmd) Run(s *session) error {
	_, err := fmt.Fprint(s.Stdout, completionScripts[c.Shell])
	return err
}

type completeCmd struct {
	Words []string `arg:"" optional:"" passthrough:"partial"`
}

// Run prints what the last of the words could become, a line each.
func (c *completeCmd) Run(s *session) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		words = []string{""}
	}
	last := words[len(words)-1]
	for _, found := range s.complete(words[:len(words)-1], last) {
		if strings.HasPrefix(found, last) {
			fmt.Fprintln(s.Stdout, found)
		}
	}
	return nil
}

// complete walks the words through the grammar and gives what may follow.
func (s *session) complete(words []string, last string) []string {
	node, given := s.model, []string(nil)
	var open *kong.Flag // waits for its value
	for _, word := range words {
		switch child := childOf(node, word); {
		case open != nil:
			open = nil
		case word == "--":
			return nil // a command for elsewhere
		case strings.HasPrefix(word, "-"):
			open = flagOf(node, word)
		case child != nil:
			node = child
		default:
			given = append(given, word)
		}
	}
	switch {
	case open != nil:
		return s.values(open.Tag, given)
	case strings.HasPrefix(last, "-"):
		return flagNames(node)
	case len(node.Children) > 0:
		return childNames(node)
	case len(node.Positional) > 0:
		return s.values(node.Positional[min(len(given), len(node.Positional)-1)].Tag, given)
	}
	return nil
}

func childOf(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name {
			return child
		}
	}
	return nil
}

func childNames(node *kong.Node) (names []string) {
	for _, child := range node.Children {
		if !child.Hidden {
			names = append(names, child.Name)
		}
	}
	return names
}

// flagOf finds a flag that takes its value from the next word.
func flagOf(node *kong.Node, word string) *kong.Flag {
	for _, group := range node.AllFlags(false) {
		for _, flag := range group {
			named := word == "--"+flag.Name || flag.Short != 0 && word == "-"+string(flag.Short)
			if named && !flag.IsBool() {
				return flag
			}
		}
	}
	return nil
}

func flagNames(node *kong.Node) (names []string) {
	for _, group := range node.AllFlags(true) {
		for _, flag := range group {
			names = append(names, "--"+flag.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// values gives what a flag or argument may be, as far as that is known. The arguments
// before it were given.
func (s *session) values(tag *kong.Tag, given []string) []string {
	if tag.Enum != "" {
		return strings.Split(tag.Enum, ",")
	}
	kind := tag.Get("complete")
	if kind == "" {
		return nil
	}
	server, err := clientFlags{}.connect(s.Getenv)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, completionTime)
	defer cancel()
	return namesOf(ctx, server, kind, given)
}

func namesOf(ctx context.Context, server *client.Client, kind string, given []string) (names []string) {
	switch kind {
	case "sandbox":
		boxes, _ := server.Sandboxes(ctx) // without an answer there is nothing to offer
		for _, b := range boxes {
			names = append(names, b.ID)
		}
	case "template":
		templates, _ := server.Templates(ctx)
		for _, t := range templates {
			names = append(names, t.Name)
		}
	case "snapshot":
		return snapshotNames(ctx, server)
	case "context":
		return contextNames(ctx, server, given)
	case "execution":
		return executionNames(ctx, server, given)
	}
	return names
}
