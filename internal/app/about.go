package app

import (
	"context"
	"runtime"
	"runtime/debug"

	"pandastack/api"
)

// about is what the API tells of a node.
type about struct{ n *Node }

func (a about) Health(ctx context.Context) (api.Health, error) {
	boxes, err := a.n.sandboxes.List(ctx)
	pool := a.n.sandboxes.Pool()
	return api.Health{
		Status: "ok", Sandboxes: len(boxes), Ready: pool.Ready, ReadyWanted: pool.Wanted,
		Isolation: a.n.machines.isolation(), Accelerator: a.n.machines.caps.Accelerator,
	}, err
}

func (a about) Version() api.Version {
	v := programVersion(a.n.cfg.Version)
	v.VMM = a.n.machines.caps.VMM + " " + a.n.machines.caps.Version
	return v
}

func programVersion(version string) api.Version {
	v := api.Version{Version: version, Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Commit = s.Value
			}
		}
	}
	return v
}
