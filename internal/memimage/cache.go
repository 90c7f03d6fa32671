package memimage

import (
	"context"
	"errors"
	"os"
	"sync"
)

// Cache holds the loaded images of a node, each once. An image stays loaded
// until Drop or Close; machines that map it keep its pages by themselves.
type Cache struct {
	name string // of every memfd

	mu      sync.Mutex
	entries map[string]*entry
}

type entry struct {
	once sync.Once
	mem  *os.File
	err  error
}

// NewCache makes an empty cache whose memfds are called name.
func NewCache(name string) *Cache {
	return &Cache{name: name, entries: map[string]*entry{}}
}

// Open gives the sealed memory of the image at path, loading it at the first
// call; later callers wait for that. The file belongs to the cache: it is for
// handing to a process, not for closing.
func (c *Cache) Open(_ context.Context, path string) (*os.File, error) {
	c.mu.Lock()
	e := c.entries[path]
	if e == nil {
		e = &entry{}
		c.entries[path] = e
	}
	c.mu.Unlock()
	e.once.Do(func() { e.mem, e.err = Load(c.name, path) })
	if e.err != nil { // the next call tries again
		c.mu.Lock()
		if c.entries[path] == e {
			delete(c.entries, path)
		}
		c.mu.Unlock()
	}
	return e.mem, e.err
}

// Close drops all images.
func (c *Cache) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for path, e := range c.entries {
		if e.mem != nil {
			errs = append(errs, e.mem.Close())
		}
		delete(c.entries, path)
	}
	return errors.Join(errs...)
}
