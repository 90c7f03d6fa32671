package template

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// apt is a private package manager state under the data directory: it uses the
// host's way to the mirror (proxy, certificates) and nothing else of the host's
// configuration, and keeps every .deb it ever downloaded.
type apt struct {
	dir     string
	suite   string
	sources []string // lines of a sources.list
}

func newApt(dir, suite, mirror, security string) apt {
	return apt{dir: filepath.Join(dir, suite), suite: suite, sources: []string{
		fmt.Sprintf("deb %s %s main", mirror, suite),
		fmt.Sprintf("deb %s %s-updates main", mirror, suite),
		fmt.Sprintf("deb %s %s-security main", security, suite),
	}}
}

func (a apt) archives() string   { return filepath.Join(a.dir, "archives") }
func (a apt) configPath() string { return filepath.Join(a.dir, "apt.conf") }

// hostConfigPath holds only how this host reaches mirrors.
func (a apt) hostConfigPath() string { return filepath.Join(a.dir, "host.conf") }

var acquirePattern = regexp.MustCompile(`(?m)^Acquire::(?:https?|Retries|ForceIPv[46])\b.*;$`)

// hostAcquire is how this host reaches mirrors, in apt.conf's syntax.
func hostAcquire(ctx context.Context) ([]string, error) {
	out, err := exec.CommandContext(ctx, "apt-config", "dump").Output()
	if err != nil {
		return nil, fmt.Errorf("read apt's configuration: %w", err)
	}
	return acquirePattern.FindAllString(string(out), -1), nil
}

// prepare writes the private configuration.
func (a apt) prepare(ctx context.Context) error {
	for _, sub := range []string{"archives/partial", "lists/partial", "parts"} {
		if err := os.MkdirAll(filepath.Join(a.dir, sub), 0o755); err != nil {
			return err
		}
	}
	acquire, err := hostAcquire(ctx)
	if err != nil {
		return err
	}
	acquire = append(acquire, `Acquire::Languages "none";`, `Acquire::Retries "3";`)
	lines := append(slices.Clone(acquire),
		// Set here, not by option, so that the host's hooks are never read.
		fmt.Sprintf("Dir::Etc::parts %q;", filepath.Join(a.dir, "parts")),
		fmt.Sprintf("Dir::Etc::main %q;", "/dev/null"),
		fmt.Sprintf("Dir::Etc::sourcelist %q;", filepath.Join(a.dir, "sources.list")),
		fmt.Sprintf("Dir::Etc::sourceparts %q;", filepath.Join(a.dir, "parts")),
		fmt.Sprintf("Dir::State %q;", a.dir),
		fmt.Sprintf("Dir::State::lists %q;", filepath.Join(a.dir, "lists")),
		fmt.Sprintf("Dir::State::status %q;", filepath.Join(a.dir, "status")),
		fmt.Sprintf("Dir::Cache %q;", a.dir),
		fmt.Sprintf("Dir::Cache::archives %q;", a.archives()),
		`APT::Architecture "amd64";`, `APT::Architectures { "amd64"; };`,
		`APT::Install-Recommends "false";`, `APT::Sandbox::User "root";`,
	)
	for name, content := range map[string]string{
		"host.conf":    strings.Join(acquire, "\n") + "\n",
		"apt.conf":     strings.Join(lines, "\n") + "\n",
		"sources.list": strings.Join(a.sources, "\n") + "\n",
		"status":       "",
	} {
		if err := os.WriteFile(filepath.Join(a.dir, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (a apt) command(argv ...string) command {
	return command{argv: argv, env: []string{"APT_CONFIG=" + a.configPath(), "LC_ALL=C.UTF-8"}, dir: a.archives()}
}

// update learns which packages are current. That is never taken from the cache:
// an image would silently be made of old packages.
func (a apt) update(ctx context.Context, log io.Writer) error {
	var said []string
	c := a.command("apt-get", "update", "--error-on=any")
	c.onLine = func(line string) {
		if strings.HasPrefix(line, "E: ") || strings.HasPrefix(line, "Err:") {
			said = append(said, line)
		}
	}
	err := c.run(ctx, log)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if len(said) > 0 {
		err = errors.New(said[0])
	}
	return fmt.Errorf("the Debian mirror could not be asked which packages are current (those in the cache are not used without it): %w", err)
}

// download fetches packages, everything essential and all they depend on.
func (a apt) download(ctx context.Context, log io.Writer, packages []string, percent func(int64)) error {
	argv := []string{"apt-get", "--yes", "--quiet", "--download-only", "-o", "APT::Status-Fd=3", "install", "?essential", "apt"}
	c := a.command(append(argv, packages...)...)
	c.status = func(line string) {
		if p, ok := dlstatus(line); ok {
			percent(p)
		}
	}
	return c.run(ctx, log)
}

// dlstatus reads the percentage of one line "dlstatus:1:12.34:words".
func dlstatus(line string) (int64, bool) {
	f := strings.SplitN(line, ":", 4)
	if len(f) < 3 || f[0] != "dlstatus" {
		return 0, false
	}
	p, err := strconv.ParseFloat(f[2], 64)
	return int64(p), err == nil
}

var kernelPattern = regexp.MustCompile(`(?m)^Depends:.*?\b(linux-image-[0-9][^ ,]*-cloud-amd64)\b`)

// downloadKernel fetches the package that linux-image-cloud-amd64 stands for
// and returns the .deb's path.
func (a apt) downloadKernel(ctx context.Context, log io.Writer) (string, error) {
	var show strings.Builder
	c := a.command("apt-cache", "show", "--no-all-versions", "linux-image-cloud-amd64")
	c.onLine = func(line string) { show.WriteString(line + "\n") }
	if err := c.run(ctx, log); err != nil {
		return "", err
	}
	m := kernelPattern.FindStringSubmatch(show.String())
	if m == nil {
		return "", fmt.Errorf("linux-image-cloud-amd64 depends on no kernel")
	}
	if err := a.command("apt-get", "--quiet", "download", m[1]).run(ctx, log); err != nil {
		return "", err
	}
	debs, err := filepath.Glob(filepath.Join(a.archives(), m[1]+"_*_amd64.deb"))
	if err != nil || len(debs) == 0 {
		return "", fmt.Errorf("%s was not downloaded", m[1])
	}
	return newest(debs)
}

// newest returns the file that was changed last.
func newest(paths []string) (string, error) {
	var best string
	var bestTime int64
	for _, p := range paths {
		fi, err := os.Stat(p)
		if err != nil {
			return "", err
		}
		if t := fi.ModTime().UnixNano(); best == "" || t > bestTime {
			best, bestTime = p, t
		}
	}
	return best, nil
}

// installed lists the packages of a root file system with the digests of the
// files they came from.
func (a apt) installed(ctx context.Context, root string) ([]DebianPackage, error) {
	out, err := exec.CommandContext(ctx, "dpkg-query", "--admindir="+filepath.Join(root, "var/lib/dpkg"), "-W",
		"-f", "${Package} ${Version} ${Architecture}\n").Output()
	if err != nil {
		return nil, fmt.Errorf("list packages: %w", err)
	}
	var list []DebianPackage
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			return nil, fmt.Errorf("list packages: unexpected line %q", line)
		}
		p, err := a.debPackage(f[0], f[1], f[2])
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	slices.SortFunc(list, func(x, y DebianPackage) int { return strings.Compare(x.Name+":"+x.Arch, y.Name+":"+y.Arch) })
	return list, nil
}

func (a apt) debPackage(name, version, arch string) (DebianPackage, error) {
	p := DebianPackage{Name: name, Version: version, Arch: arch}
	file := fmt.Sprintf("%s_%s_%s.deb", name, strings.ReplaceAll(version, ":", "%3a"), arch)
	sum, err := hashFile(filepath.Join(a.archives(), file))
	if err != nil {
		return p, fmt.Errorf("digest of package %s: %w", name, err)
	}
	p.SHA256 = sum
	return p, nil
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
