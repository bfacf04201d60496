#include "api/http/static_files.h"

#include <filesystem>
#include <system_error>

#include "common/base/file.h"
#include "common/digest/sha256.h"

namespace tide::api {
namespace {

namespace fs = std::filesystem;

struct StaticFile {
  std::string type;
  std::string content;
  std::string gzip;  // empty = none
  std::string etag;
  bool immutable = false;
};

std::string TypeOf(const std::string& extension) {
  static const std::map<std::string, std::string> kTypes = {
      {".html", "text/html; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".svg", "image/svg+xml; charset=utf-8"},
      {".png", "image/png"},
      {".json", "application/json; charset=utf-8"},
      {".txt", "text/plain; charset=utf-8"}};
  const auto it = kTypes.find(extension);
  return it == kTypes.end() ? "application/octet-stream" : it->second;
}

Outcome Serve(const StaticFile& file, const Call& call) {
  Reply reply;
  reply.content_type = file.type;
  reply.headers.emplace_back("ETag", file.etag);
  reply.headers.emplace_back("Cache-Control",
                             file.immutable ? "public, max-age=31536000, immutable" : "no-cache");
  if (call.Header("if-none-match") == file.etag) {
    reply.status = 304;
    return reply;
  }
  if (!file.gzip.empty()) {
    reply.headers.emplace_back("Vary", "Accept-Encoding");
    if (call.Header("accept-encoding").find("gzip") != std::string::npos) {
      reply.headers.emplace_back("Content-Encoding", "gzip");
      reply.body = file.gzip;
      return reply;
    }
  }
  reply.body = file.content;
  return reply;
}

Route RouteTo(std::string path, std::shared_ptr<const StaticFile> file) {
  return {"GET", std::move(path), kOpen, [file = std::move(file)](const Call& call) {
            return Serve(*file, call);
          }};
}

Result<std::shared_ptr<const StaticFile>> Load(const fs::path& path) {
  auto file = std::make_shared<StaticFile>();
  TIDE_ASSIGN(file->content, ReadFile(path.string()));
  file->type = TypeOf(path.extension().string());
  file->etag = "\"" + Sha256Hex(file->content).substr(0, 16) + "\"";
  file->immutable = path.parent_path().filename() == "assets";
  std::error_code ignored;
  if (fs::exists(path.string() + ".gz", ignored)) {
    TIDE_ASSIGN(file->gzip, ReadFile(path.string() + ".gz"));
  }
  return file;
}

}  // namespace

Result<Routes> StaticRoutes(const std::string& dir) {
  Routes routes;
  std::error_code error;
  for (fs::recursive_directory_iterator it(dir, error), end; !error && it != end;
       it.increment(error)) {
    if (!it->is_regular_file() || it->path().extension() == ".gz") {
      continue;
    }
    TIDE_ASSIGN(const auto file, Load(it->path()));
    const std::string relative = fs::relative(it->path(), dir).generic_string();
    routes.push_back(RouteTo("/" + relative, file));
    if (relative == "index.html") {
      routes.push_back(RouteTo("/", file));
    }
  }
  if (error) {
    return Fail(ErrorCode::kSystem, "cannot read the web files in " + dir + ": " + error.message());
  }
  if (std::ranges::none_of(routes, [](const Route& route) { return route.pattern == "/"; })) {
    return Fail(ErrorCode::kNotFound,
                dir + " holds no index.html; build the dashboard with `npm run build` in web/");
  }
  return routes;
}

Routes PlaceholderRoutes() {
  return {{"GET", "/", kOpen, [](const Call&) -> Outcome {
             Reply reply;
             reply.content_type = std::string(kTextType);
             reply.body =
                 "tide-api runs without the dashboard; start it with --web-dir. "
                 "The API is below /v1.\n";
             return reply;
           }}};
}

}  // namespace tide::api
