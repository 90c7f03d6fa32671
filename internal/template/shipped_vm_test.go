//go:build vm

package template

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"pandastack/templates"
)

// shippedData is where the template that ships is built: a folder that outlives
// the test makes the next run quick.
const shippedData = "PANDASTACK_TEST_DATA"

// shippedImage builds, or finds, the image of the template that ships.
func shippedImage(t *testing.T) *Image {
	t.Helper()
	b := testBuilder(t, Config{Data: os.Getenv(shippedData), Recipes: templates.FS})
	src, err := b.load("code-interpreter")
	if err != nil {
		t.Fatal(err)
	}
	img, err := b.EnsureImage(t.Context(), src, func(p Progress) {
		if p.Finished {
			t.Logf("%d/%d %s %v cached=%v", p.Index, p.Of, p.Step, p.Elapsed, p.Cached)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d Debian packages, %d MiB", img.Dir, len(img.Manifest.Debian), img.Manifest.Sizes.Allocated>>20)
	return img
}

// enterImage mounts the image under a writable layer in memory, as a guest does,
// and becomes the program.
const enterImage = `
mount -t tmpfs layer "$2" && cd "$2" && mkdir base up work root &&
mount -o ro,loop "$1" base &&
mount -t overlay -o lowerdir=base,upperdir=up,workdir=work overlay root &&
mount -t proc proc root/proc && shift 2 &&
exec env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 chroot root "$@"`

// inImage runs a program in the image, in a mount namespace of its own, and
// returns what it printed.
func inImage(t *testing.T, img *Image, argv ...string) string {
	t.Helper()
	cmd := exec.Command("unshare", append([]string{"--mount", "sh", "-c", enterImage, "sh", img.Base(), t.TempDir()}, argv...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", argv[0], err, out)
	}
	return string(out)
}

// draw fails on any warning: one about a missing glyph, or about a font list
// that has to be made anew.
const draw = `
import logging, warnings
warnings.simplefilter("error")
logging.basicConfig(level=logging.INFO)
import matplotlib
matplotlib.use("agg")
import matplotlib.pyplot as plt
plt.title("Umsatz 売上 かな 销售 매출 продажи πωλήσεις 😀 📈 🚀 ✅ €")
for kind in ("png", "svg", "pdf"):
    plt.savefig("/tmp/chart." + kind)
print("drawn")
`

const imports = `
import IPython, pandas, numpy, matplotlib, plotly, scipy, sklearn, seaborn, openpyxl, pyarrow, sympy, PIL, requests, ipywidgets, ipykernel
import zoneinfo; zoneinfo.ZoneInfo("Europe/Vienna")
import pandas as pd
import sys; assert pd.__file__.startswith("/opt/pandastack/venv"), pd.__file__
assert pd.__cached__ and __import__("os").path.exists(pd.__cached__), "pandas has no byte code"
print("imported")
`

func TestShippedImage(t *testing.T) {
	img := shippedImage(t)
	if out, err := exec.Command("e2fsck", "-fn", img.Base()).CombinedOutput(); err != nil {
		t.Errorf("e2fsck: %v\n%s", err, out)
	}
	python := venv + "/bin/python"
	if out := inImage(t, img, python, "-c", draw); !strings.HasSuffix(out, "drawn\n") || strings.Contains(out, "font") {
		t.Errorf("a chart in many scripts: %s", out)
	}
	if out := inImage(t, img, python, "-c", imports); out != "imported\n" {
		t.Errorf("imports: %s", out)
	}
	if out := inImage(t, img, python, "-m", "pip", "check"); !strings.Contains(out, "No broken requirements") {
		t.Errorf("pip check: %s", out)
	}
	for _, program := range []string{"bash", "ps", "ip", "curl", "unzip", "file", "less"} {
		inImage(t, img, "sh", "-c", "command -v "+program)
	}
	if out := inImage(t, img, "sh", "-c", "ls -A /etc/apt/apt.conf.d; cat /etc/apt/sources.list"); strings.Contains(out, "99mmdebstrap") || !strings.Contains(out, DefaultMirror) {
		t.Errorf("the image knows this host's way to its mirror: %s", out)
	}
}
