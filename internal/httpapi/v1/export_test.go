package v1

// NotOfferedRoutes is the table, for tests.
var NotOfferedRoutes = notOfferedRoutes

// WantsEvents is tested on its own.
var WantsEvents = wantsEvents
