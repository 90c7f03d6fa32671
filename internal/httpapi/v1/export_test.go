package v1

// NotOfferedRoutes is the table, for tests.
var NotOfferedRoutes = notOfferedRoutes
