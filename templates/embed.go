// Package templates holds the recipes that ship with PandaStack, one folder
// each, so that one binary is the whole product.
package templates

import "embed"

// FS has one folder per template; the folder's name is the template's.
//
//go:embed base code-interpreter
var FS embed.FS
