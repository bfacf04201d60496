#pragma once
// The dashboard's files, read once and served from memory.

#include <string>

#include "api/http/routes.h"

namespace tide::api {

// One GET route for each file below `dir`; index.html also answers "/". Files whose names carry a
// hash (in assets/) may be cached for ever. `x.gz` beside `x` is sent to clients that take gzip.
// Errors: kNotFound without an index.html, kSystem.
[[nodiscard]] Result<Routes> StaticRoutes(const std::string& dir);
// What "/" says when tide-api runs without the dashboard.
[[nodiscard]] Routes PlaceholderRoutes();

}  // namespace tide::api
