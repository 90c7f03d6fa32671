package cli

import (
	"context"
	"strings"
	"testing"
)

func TestTemplateCommandsOfThisMachine(t *testing.T) {
	var removed string
	var settings Settings
	node := Node{
		RemoveTemplate: func(_ context.Context, s Settings, name string) error { removed, settings = name, s; return nil },
		PruneTemplates: func(context.Context, Settings) (Pruned, error) {
			return Pruned{Removed: []string{"/data/warm/key", "/data/cache/wheels/a.whl"}, Bytes: 5 << 20}, nil
		},
		Build: func(_ context.Context, _ Settings, _ string, _ bool, progress func(Progress)) error {
			progress(Progress{Step: "warm", Index: 1, Of: 1, Log: "guest$ true"})
			return nil
		},
	}
	got := command(t.Context(), nil, node, "template", "rm", "mine", "--data-dir", "/data")
	if got.out != "removed mine\n" || removed != "mine" || settings["data_dir"] != "/data" {
		t.Errorf("rm: %+v of %q, settings %v", got, removed, settings)
	}
	got = command(t.Context(), nil, node, "template", "prune")
	if got.out != "removed warm/key\nremoved wheels/a.whl\n2 removed, 5 MiB freed\n" {
		t.Errorf("prune: %+v", got)
	}
	quiet := command(t.Context(), nil, node, "template", "build", "./mine")
	loud := command(t.Context(), nil, node, "template", "build", "./mine", "--logs")
	if line := "  guest$ true\n"; strings.Contains(quiet.out, line) || !strings.HasPrefix(loud.out, line) {
		t.Errorf("build: %+v, with --logs %+v", quiet, loud)
	}
}
