package sandbox

import (
	"context"
	"fmt"

	"pandastack/api"
	"pandastack/internal/guestproto"
	"pandastack/internal/kit/ids"
	"pandastack/internal/panda"
)

// CreateContext starts a kernel and returns when it answers.
func (s *Service) CreateContext(ctx context.Context, id string, req api.CreateContext) (api.Context, error) {
	if err := checkEnv(req.Env); err != nil {
		return api.Context{}, err
	}
	if len(req.Name) > 128 {
		return api.Context{}, invalid("name", "has at most 128 bytes")
	}
	var kernel guestproto.Kernel
	err := s.call(ctx, id, aboutNewContext, func(ctx context.Context, l *live, g guestproto.Guest) (err error) {
		kernel, err = g.CreateKernel(ctx, guestproto.KernelRequest{
			ID: ids.New(), Name: req.Name, Language: req.Language, Kind: req.Kernel, Cwd: req.Cwd, Env: merged(l.env, req.Env),
		})
		return err
	})
	return contextOf(id, kernel), err
}

// Contexts gives a sandbox's contexts.
func (s *Service) Contexts(ctx context.Context, id string) ([]api.Context, error) {
	var kernels []guestproto.Kernel
	err := s.call(ctx, id, aboutContext, func(ctx context.Context, _ *live, g guestproto.Guest) (err error) {
		kernels, err = g.Kernels(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	all := make([]api.Context, len(kernels))
	for n, kernel := range kernels {
		all[n] = contextOf(id, kernel)
	}
	return all, nil
}

// Context gives one context, or context.not_found.
func (s *Service) Context(ctx context.Context, id, contextID string) (api.Context, error) {
	all, err := s.Contexts(ctx, id)
	if err != nil {
		return api.Context{}, err
	}
	for _, c := range all {
		if c.ID == contextID {
			return c, nil
		}
	}
	return api.Context{}, &panda.Error{
		Code:    api.CodeContextNotFound,
		Message: fmt.Sprintf("the sandbox has no context %q", shorten(contextID, 64)),
	}
}

// DeleteContext ends a kernel and its processes.
func (s *Service) DeleteContext(ctx context.Context, id, contextID string) error {
	return s.call(ctx, id, aboutContext, func(ctx context.Context, _ *live, g guestproto.Guest) error {
		return g.DeleteKernel(ctx, contextID)
	})
}

// Interrupt stops a context's running cell as Ctrl-C does.
func (s *Service) Interrupt(ctx context.Context, id, contextID string) error {
	return s.call(ctx, id, aboutContext, func(ctx context.Context, _ *live, g guestproto.Guest) error {
		return g.InterruptKernel(ctx, contextID)
	})
}

// RestartContext gives a context a fresh kernel and returns when that answers.
// Cells that wait are aborted.
func (s *Service) RestartContext(ctx context.Context, id, contextID string) (api.Context, error) {
	err := s.call(ctx, id, aboutContext, func(ctx context.Context, _ *live, g guestproto.Guest) error {
		return g.RestartKernel(ctx, contextID)
	})
	if err != nil {
		return api.Context{}, err
	}
	return s.Context(ctx, id, contextID)
}

func contextOf(id string, k guestproto.Kernel) api.Context {
	return api.Context{
		ID: k.ID, SandboxID: id, Name: shorten(k.Name, 128), Waiting: k.Waiting, Language: k.Language, Kernel: shorten(k.Kind, 128), Cwd: k.Cwd, Status: k.State,
		ExecutionCount: k.ExecutionCount, Restarts: k.Restarts, CreatedAt: k.CreatedAt,
	}
}
