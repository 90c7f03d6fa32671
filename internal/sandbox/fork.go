package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"pandastack/api"
	"pandastack/internal/kit/failpoint"
	"pandastack/internal/kit/ids"
	"pandastack/internal/kit/logkey"
	"pandastack/internal/panda"
)

// maxForks is how many copies one call may ask for.
const maxForks = 16

// Fork makes copies of a sandbox that continue from the same moment, and lets it
// go on. All are made or none. tree is common to them.
func (s *Service) Fork(ctx context.Context, id string, req api.ForkTree) (tree string, children []panda.Sandbox, err error) {
	if req.Count < 1 || req.Count > maxForks {
		return "", nil, invalid("count", fmt.Sprintf("must be from 1 to %d", maxForks))
	}
	if err := checkPairs("metadata", req.Metadata); err != nil {
		return "", nil, err
	}
	var parent panda.Sandbox
	tree = ids.New()
	// The operation ends with the capture; the children need nothing of the parent's machine.
	err = s.operate(ctx, id, callsGoOn, func(ctx context.Context, l *live) error {
		parent = s.status(l)
		_, err := s.copyOf(ctx, l, parent, tree, true)
		return err
	})
	if err != nil {
		return "", nil, err
	}
	defer func() {
		failpoint.Hit("remove save")
		if gone := os.RemoveAll(s.saveDir(tree)); gone != nil {
			s.cfg.Log.Warn("remove what forks were made from", logkey.Sandbox, id, logkey.Error, gone)
		}
	}()
	children, err = s.createForks(ctx, parent, tree, req)
	return tree, children, err
}

func (s *Service) createForks(ctx context.Context, parent panda.Sandbox, tree string, req api.ForkTree) ([]panda.Sandbox, error) {
	children, errs := make([]panda.Sandbox, req.Count), make([]error, req.Count)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	for i := range children {
		group.Go(func() {
			children[i], errs[i] = s.createFork(ctx, parent, tree, req.Metadata)
			if errs[i] != nil {
				cancel() // no use in the others
			}
		})
	}
	group.Wait()
	if err := firstOf(errs); err != nil {
		for i, child := range children {
			if errs[i] == nil {
				err = errors.Join(err, s.Delete(context.WithoutCancel(ctx), child.ID))
			}
		}
		return nil, err
	}
	return children, nil
}

// firstOf gives the error that made the others be called off.
func firstOf(errs []error) error {
	var first error
	for _, err := range errs {
		if err != nil && (first == nil || errors.Is(first, context.Canceled)) {
			first = err
		}
	}
	return first
}

func (s *Service) createFork(ctx context.Context, parent panda.Sandbox, tree string, metadata map[string]string) (panda.Sandbox, error) {
	l := s.newLive(ids.New())
	req := api.CreateSandbox{
		Template: parent.Template, CPU: parent.CPU, MemoryMB: parent.MemoryMB, Env: parent.Env,
		Metadata: merged(parent.Metadata, metadata), Persistent: parent.Persistent,
		TTLSeconds: int(parent.TTL.Seconds()), IdleTimeoutSeconds: int(parent.IdleTimeout.Seconds()),
		OnTimeout: parent.OnTimeout, AutoWake: &parent.AutoWake,
	}
	return s.create(ctx, req, l, func(ctx context.Context, b *birth) error {
		b.record.FromSnapshot, b.record.ForkParent, b.record.ForkTree = parent.FromSnapshot, parent.ID, tree
		return b.run(ctx, func(ctx context.Context) (source, error) { return s.savedSource(ctx, tree, identity(l.id)) })
	})
}

// Promote makes a copy the one that stays: its siblings go, if req says so.
func (s *Service) Promote(ctx context.Context, id string, req api.Promote) (api.Promoted, error) {
	winner, err := s.Get(ctx, id)
	if err != nil {
		return api.Promoted{}, err
	}
	tree := req.TreeID
	if tree == "" {
		tree = winner.ForkTree
	}
	if tree == "" || tree != winner.ForkTree {
		return api.Promoted{}, invalid("tree_id", "the sandbox is not a copy made by that fork")
	}
	out := api.Promoted{Winner: id, TreeID: tree, Deleted: []string{}, Failures: map[string]string{}}
	if !req.CleanupSiblings {
		return out, nil
	}
	all, err := s.List(ctx)
	if err != nil {
		return api.Promoted{}, err
	}
	for _, sb := range all {
		if sb.ForkTree != tree || sb.ID == id {
			continue
		}
		if err := s.Delete(ctx, sb.ID); err != nil && panda.CodeOf(err) != api.CodeSandboxNotFound {
			out.Failures[sb.ID] = err.Error()
			continue
		}
		out.Deleted = append(out.Deleted, sb.ID)
	}
	return out, nil
}
