package app

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pandastack/api"
	"pandastack/internal/panda"
)

// aConfig is a node that starts no machine. QEMU is only asked for its version,
// so a script can say it.
func aConfig(t *testing.T) Config {
	t.Helper()
	bin := t.TempDir()
	script := "#!/bin/sh\necho 'QEMU emulator version 7.2.0 (test)'\n"
	if err := os.WriteFile(filepath.Join(bin, "qemu-system-x86_64"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	cfg := defaults()
	cfg.DataDir, cfg.Listen, cfg.Jail = filepath.Join(t.TempDir(), "data"), "127.0.0.1:0", "off"
	return cfg
}

var quiet = slog.New(slog.DiscardHandler)

// running starts a node and serves until the returned function is called.
func running(t *testing.T, cfg Config) (*Node, func()) {
	t.Helper()
	n, err := Start(t.Context(), cfg, quiet)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- n.Serve(ctx) }()
	return n, func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		if err := n.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

func readAnnouncement(t *testing.T, cfg Config) announcement {
	t.Helper()
	var a announcement
	text, err := os.ReadFile(dataDir(cfg.DataDir).serverFile())
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestNodeAnswersAndLeavesNothing(t *testing.T) {
	cfg := aConfig(t)
	_, stop := running(t, cfg)
	a := readAnnouncement(t, cfg)
	if a.PID != os.Getpid() {
		t.Errorf("pid %d, want %d", a.PID, os.Getpid())
	}
	for _, file := range []string{dataDir(cfg.DataDir).serverFile(), a.KeyFile, dataDir(cfg.DataDir).store()} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, mode %v, want 0600", file, err, info.Mode())
		}
	}
	key, err := os.ReadFile(a.KeyFile)
	if err != nil || !strings.HasPrefix(string(key), "pds_") || len(strings.TrimSpace(string(key))) < 30 {
		t.Fatalf("key %q, %v", key, err)
	}
	req, _ := http.NewRequest("GET", a.URL+"/v1/sandboxes", nil)
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(key)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != 200 || strings.TrimSpace(string(body)) != `{"items":[]}` {
		t.Errorf("list: %d %s", resp.StatusCode, body)
	}
	stop()
	if _, err := os.Stat(dataDir(cfg.DataDir).serverFile()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the announcement outlives the server: %v", err)
	}
	if conn, err := net.Dial("tcp", strings.TrimPrefix(a.URL, "http://")); err == nil {
		conn.Close()
		t.Error("the address is still served")
	}
}

func TestKeyOutlivesTheServer(t *testing.T) {
	cfg := aConfig(t)
	var keys []string
	for range 2 {
		_, stop := running(t, cfg)
		key, err := os.ReadFile(dataDir(cfg.DataDir).keyFile())
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, string(key))
		stop()
	}
	if keys[0] != keys[1] {
		t.Errorf("the key changed from %q to %q", keys[0], keys[1])
	}
}

// refusedStart checks that a node does not start, for the right reason.
func refusedStart(t *testing.T, cfg Config, code string, words ...string) {
	t.Helper()
	n, err := Start(t.Context(), cfg, quiet)
	if err == nil {
		n.Close(t.Context())
		t.Fatal("the node started")
	}
	var known *panda.Error
	if !errors.As(err, &known) || known.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	for _, word := range words {
		if !strings.Contains(known.Message, word) {
			t.Errorf("%q does not name %q", known.Message, word)
		}
	}
}

func TestDataDirectoryIsLocked(t *testing.T) {
	cfg := aConfig(t)
	_, stop := running(t, cfg)
	refusedStart(t, cfg, api.CodeHostDataDirLocked, cfg.DataDir, strconv.Itoa(os.Getpid()))
	readAnnouncement(t, cfg) // the one that runs is still announced
	stop()
}

func TestPortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	cfg := aConfig(t)
	cfg.Listen = taken.Addr().String()
	refusedStart(t, cfg, api.CodeHostPortInUse, cfg.Listen)
	cfg.Listen = "127.0.0.1:0" // the failed start let go of the folder
	_, stop := running(t, cfg)
	stop()
}

func TestDataDirectoryCannotBeUsed(t *testing.T) {
	cfg := aConfig(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.DataDir = filepath.Join(file, "data")
	refusedStart(t, cfg, api.CodeHostDataDirUnusable, cfg.DataDir)
}

func TestNoVMM(t *testing.T) {
	cfg := aConfig(t)
	t.Setenv("PATH", t.TempDir())
	refusedStart(t, cfg, api.CodeHostNoVMM)
}
