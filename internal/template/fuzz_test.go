package template

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzRecipe: any text is refused with a reason, or is a recipe that all later
// steps can rely on.
func FuzzRecipe(f *testing.F) {
	for _, seed := range []string{
		good, "", "name: [", "name: demo\ncpu: many", "a: &a [*a]", "? {}", "- \t", "name: !!binary x", "<<: *x", "name: |\n  a\n b",
		strings.Replace(good, "lock: requirements.lock", "packages: [idna>=3]", 1),
		good + "variants:\n  - {cpu: 2, memory_mb: 2048}\nstart: sleep 9 &\nready: \"true\"\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 8<<10 {
			t.Skip("long texts are slow and find nothing that short ones do not")
		}
		src, err := Load(recipeFS(text))
		if err != nil {
			if src != nil || err.Error() == "" {
				t.Fatalf("refused without a reason, or not wholly: %v", err)
			}
			return
		}
		r := src.Recipe
		if r.Name == "" || r.CPU < 1 || r.MemoryMB < 1 || r.DiskMB < 1 {
			t.Fatalf("took a recipe without a name or a size: %+v", r)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Fatalf("a recipe that cannot be kept: %v", err)
		}
		if src.RecipeKey() == "" {
			t.Fatal("no key")
		}
	})
}

// FuzzLock: what a lock file names is pinned and has hashes, whatever the file.
func FuzzLock(f *testing.F) {
	for _, seed := range []string{"", "idna==3.10 \\\n --hash=sha256:aa\n", "a==1", "--index-url x", "a==1 --hash=sha256:a # b\nB==2 --hash=x"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		packages, err := parseLock(text)
		if err == nil && len(packages) == 0 {
			t.Fatal("took a lock without a package")
		}
		for _, p := range packages {
			if err == nil && (p.Name == "" || p.Version == "" || len(p.Hashes) == 0 || strings.ContainsAny(p.Name+p.Version, " \n")) {
				t.Fatalf("took %+v", p)
			}
		}
		wanted, err := parseRequirements(text)
		for _, line := range wanted {
			if err == nil && (strings.HasPrefix(line, "-") || strings.ContainsAny(line, "\n@")) {
				t.Fatalf("took %q", line)
			}
		}
	})
}
