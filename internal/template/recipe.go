package template

// recipeFile is the recipe's name in a template's folder.
const recipeFile = "template.yaml"

// Recipe is a template.yaml.
type Recipe struct {
	Name        string            `yaml:"name" json:"name"`
	Description string            `yaml:"description" json:"description"`
	Base        Base              `yaml:"base" json:"base"`
	Packages    []string          `yaml:"packages" json:"packages,omitempty"` // Debian packages
	Python      *Python           `yaml:"python" json:"python,omitempty"`
	Files       []File            `yaml:"files" json:"files,omitempty"`
	Env         map[string]string `yaml:"env" json:"env,omitempty"`
	// Start runs once while the template is baked and what it leaves running is
	// in every sandbox. With Ready, which is tried until it exits 0, Start may
	// itself go on running; without, it has to end. Both are shell lines.
	Start    string `yaml:"start" json:"start,omitempty"`
	Ready    string `yaml:"ready" json:"ready,omitempty"`
	Warm     WarmUp `yaml:"warm" json:"warm"`
	CPU      int    `yaml:"cpu" json:"cpu"`
	MemoryMB int    `yaml:"memory_mb" json:"memory_mb"`
	DiskMB   int    `yaml:"disk_mb" json:"disk_mb"` // the writable disk
	// Variants are further sizes that are baked with the template; what one
	// leaves out is as above. Any other size is baked when it is first asked for.
	Variants []Variant `yaml:"variants" json:"variants,omitempty"`
}

// Base names what a root file system starts from.
type Base struct {
	Debian string `yaml:"debian" json:"debian"` // suite
}

// Python asks for a virtual environment and the kernel that runs cells in it:
// with exactly the packages of Lock, or with what Packages and Requirements
// resolve to when the image is built, ipython added.
type Python struct {
	Lock         string   `yaml:"lock" json:"lock"` // a requirements file with hashes, in the recipe's folder
	Requirements string   `yaml:"requirements" json:"requirements,omitempty"`
	Packages     []string `yaml:"packages" json:"packages,omitempty"`
}

// File is copied from the recipe's folder into the image; a folder with all
// files below it.
type File struct {
	From string `yaml:"from" json:"from"`
	To   string `yaml:"to" json:"to"`
	Mode uint32 `yaml:"mode" json:"mode,omitempty"` // 0 means 0644, or 0755 for what is executable
}

// WarmUp is done in the Python kernel before the template's memory is saved.
type WarmUp struct {
	Imports []string `yaml:"imports" json:"imports,omitempty"`
	Cells   []string `yaml:"cells" json:"cells,omitempty"`
}
