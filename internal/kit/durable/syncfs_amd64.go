package durable

// sysSyncfs is missing from the frozen syscall package.
const sysSyncfs = 306
