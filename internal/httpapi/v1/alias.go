package v1

// aliases are names under which published clients ask for a template when their
// user names none. No template of this server can have such a name, since names
// have no dots.
var aliases = map[string]string{
	"ubuntu-24.04": "base", // the TypeScript client's
}

// templateNamed gives the template that a request means.
func templateNamed(name string) string {
	if meant, ok := aliases[name]; ok {
		return meant
	}
	return name
}
