//go:build !race

package guest_test

// raced is false: the agent is built as it is shipped.
const raced = false
