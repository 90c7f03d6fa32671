// Package ids makes the names of sandboxes, contexts and executions.
package ids

import "crypto/rand"

// Len is the length of an id: 103 bits, so nobody guesses or meets one twice.
const Len = 20

// alphabet has neither '-' nor '.', because an id is a part of host names such
// as 8080-ID.example.org.
const alphabet = "abcdefghijklmnopqrstuvwxyz0123456789"

// New gives a fresh random id.
func New() string {
	// Bytes from 252 up are thrown away; they would favour the first letters.
	const fair = 256 - 256%len(alphabet)
	id := make([]byte, 0, Len)
	var random [2 * Len]byte
	for {
		_, _ = rand.Read(random[:]) // never fails, says crypto/rand
		for _, b := range random {
			if int(b) >= fair {
				continue
			}
			id = append(id, alphabet[int(b)%len(alphabet)])
			if len(id) == Len {
				return string(id)
			}
		}
	}
}

// Valid says whether s has the shape of an id.
func Valid(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return len(s) == Len
}
