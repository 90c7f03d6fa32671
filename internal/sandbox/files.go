package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"

	"pandastack/api"
	"pandastack/internal/guestproto"
	"pandastack/internal/panda"
)

// ReadFile opens a file. The caller closes the body, which ends with an error
// if the machine ends before all of it was read.
func (s *Service) ReadFile(ctx context.Context, id, path string) (guestproto.FileInfo, io.ReadCloser, error) {
	if err := checkPath(path); err != nil {
		return guestproto.FileInfo{}, nil, err
	}
	in, err := s.enter(ctx, id)
	if err != nil {
		return guestproto.FileInfo{}, nil, err
	}
	bound, release := in.bind(ctx)
	info, body, err := in.guest.ReadFile(bound, path)
	if err != nil {
		release()
		return guestproto.FileInfo{}, nil, s.explain(ctx, in, aboutFile, err)
	}
	explain := func(err error) error { return s.explain(ctx, in, aboutFile, err) }
	return info, &download{body, explain, release}, nil
}

// download is a file's body with the errors of the API.
type download struct {
	io.ReadCloser
	explain func(error) error
	release func()
}

func (d *download) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = d.explain(err)
	}
	return n, err
}

func (d *download) Close() error {
	defer d.release()
	return d.ReadCloser.Close()
}

// WriteFile replaces a file with body, which has size bytes, or as many as come
// if size is -1. A body that ends early leaves the old file.
func (s *Service) WriteFile(ctx context.Context, id, path string, size int64, body io.Reader) (api.FileWritten, error) {
	if err := checkPath(path); err != nil {
		return api.FileWritten{}, err
	}
	in := &upload{body: body, size: size}
	var info guestproto.FileInfo
	err := s.call(ctx, id, aboutFile, func(ctx context.Context, _ *live, g guestproto.Guest) (err error) {
		info, err = g.WriteFile(ctx, guestproto.WriteRequest{Path: path}, in)
		if in.err != nil { // what the agent says then follows from it
			return in.err
		}
		return err
	})
	if err != nil {
		return api.FileWritten{}, err
	}
	return api.FileWritten{Path: info.Path, Bytes: in.n}, nil
}

// upload is a body that must have the size it was said to have.
type upload struct {
	body    io.Reader
	size, n int64
	err     error
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.body.Read(p)
	u.n += int64(n)
	if err == io.EOF && u.size >= 0 && u.n != u.size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil && err != io.EOF {
		u.err = &panda.Error{
			Code:    api.CodeRequestInvalid,
			Message: fmt.Sprintf("the upload broke off after %d bytes; nothing of it was kept", u.n),
			Cause:   err,
		}
		var known *panda.Error
		if errors.As(err, &known) {
			u.err = err
		}
		return n, u.err
	}
	return n, err
}

// ListDir gives what is in a folder.
func (s *Service) ListDir(ctx context.Context, id, path string) ([]api.FileInfo, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	var entries []guestproto.FileInfo
	err := s.call(ctx, id, aboutFile, func(ctx context.Context, _ *live, g guestproto.Guest) (err error) {
		entries, err = g.ListDir(ctx, path)
		return err
	})
	if err != nil {
		return nil, err
	}
	all := make([]api.FileInfo, len(entries))
	for n, e := range entries {
		all[n] = api.FileInfo(e)
	}
	return all, nil
}

// Stat describes a file or folder.
func (s *Service) Stat(ctx context.Context, id, path string) (api.FileInfo, error) {
	if err := checkPath(path); err != nil {
		return api.FileInfo{}, err
	}
	var info guestproto.FileInfo
	err := s.call(ctx, id, aboutFile, func(ctx context.Context, _ *live, g guestproto.Guest) (err error) {
		info, err = g.Stat(ctx, path)
		return err
	})
	return api.FileInfo(info), err
}
