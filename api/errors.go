package api

//go:generate go run gen_errors.go
//go:generate sh -c "go run ../cmd/pandastack openapi >openapi.json.tmp && mv openapi.json.tmp openapi.json"

// Code is one entry of the registry of errors.
type Code struct {
	Code   string `json:"code"`
	Status int    `json:"status"`
	Hint   string `json:"hint"`
	Doc    string `json:"doc"`
}

// Lookup finds a code's entry. A code that is not registered is a fault of the
// server and gives the entry of CodeInternal.
func Lookup(code string) Code {
	for _, c := range Codes() {
		if c.Code == code {
			return c
		}
	}
	return Lookup(CodeInternal)
}
