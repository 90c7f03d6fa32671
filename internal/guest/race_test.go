//go:build race

package guest_test

// raced has the agent's process watched as the tests' own is.
const raced = true
