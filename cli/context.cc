#include "cli/context.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/base/utf8.h"
#include "common/spec/span_text.h"

namespace tide::cli {
namespace {

constexpr size_t kPageMax = 1000;

// Writes what would steer a terminal as JSON's escapes. Those of ASCII are written so already; line
// breaks are the layout's.
std::string Escaped(std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const auto point = NextCodePoint(text, pos);
    if (point && *point > U' ' && SteersTerminal(*point)) {
      out += EscapeOf(*point);
    } else {
      out += text.substr(begin, pos - begin);
    }
  }
  return out;
}

std::string Dump(const json& value, int indent) {
  return Escaped(value.dump(indent, ' ', false, json::error_handler_t::replace)) + "\n";
}

Answer<json> Parse(const Answer<std::string>& body) {
  if (!body) {
    return std::unexpected(body.error());
  }
  json value = json::parse(*body, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) {
    return Refuse(kExitFailed, "the answer of the server is no JSON; is this a Tide server?");
  }
  return value;
}

}  // namespace

Format Context::format() const {
  if (options.output == "json") {
    return Format::kJson;
  }
  if (options.output == "jsonl") {
    return Format::kJsonl;
  }
  return options.output == "name" ? Format::kName : Format::kTable;
}

Answer<const Client*> Context::Connect() {
  if (client_) {
    return &*client_;
  }
  Client::Patience patience;
  if (!options.timeout.empty()) {
    const auto timeout = ParseSpan(options.timeout);
    if (!timeout || timeout->nanos() == 0) {
      return Refuse(
          kExitUsage,
          "--timeout: " + (timeout ? "it must be longer than 0" : timeout.error().message));
    }
    patience = {*timeout, *timeout};
  }
  auto server = Address();
  if (!server) {
    return std::unexpected(server.error());
  }
  server->token = token_.value_or(server->token);
  client_.emplace(*server, patience);
  return &*client_;
}

Answer<Server> Context::Address() {
  auto server = ResolveServer(SourcesOfThisProcess(options.server, options.ca));
  if (!server) {
    const bool refused = server.error().code == ErrorCode::kPermissionDenied;
    return Refuse(refused ? kExitNotAllowed : kExitUsage, server.error().message);
  }
  return *std::move(server);
}

Answer<json> Context::Get(const std::string& path) {
  const auto client = Connect();
  if (!client) {
    return std::unexpected(client.error());
  }
  return Parse((*client)->Get(path));
}

Answer<json> Context::Post(const std::string& path, const PostBody& body) {
  const auto client = Connect();
  if (!client) {
    return std::unexpected(client.error());
  }
  return Parse((*client)->Post(path, body));
}

Answer<json> Context::Put(const std::string& path, const std::string& bytes) {
  const auto client = Connect();
  if (!client) {
    return std::unexpected(client.error());
  }
  return Parse((*client)->Put(path, {bytes, "application/octet-stream", ""}));
}

Answer<json> Context::Patch(const std::string& path, const std::string& bytes) {
  const auto client = Connect();
  if (!client) {
    return std::unexpected(client.error());
  }
  return Parse((*client)->Patch(path, {bytes}));
}

Answer<json> Context::Delete(const std::string& path) {
  const auto client = Connect();
  if (!client) {
    return std::unexpected(client.error());
  }
  return Parse((*client)->Delete(path));
}

Answer<json> Context::GetList(const std::string& path, const std::string& query, size_t limit) {
  json all;
  while (true) {
    const size_t have = all.is_null() ? 0 : all["items"].size();
    std::string page = path + "?limit=" + std::to_string(std::min(kPageMax, limit - have));
    page += query.empty() ? "" : "&" + query;
    const std::string cursor = all.is_null() ? "" : Text(all, "next_cursor");
    page += cursor.empty() ? "" : "&cursor=" + UrlStep(cursor);
    auto part = Get(page);
    if (!part) {
      return part;
    }
    if (all.is_null()) {
      all = json::object();
      all["items"] = json::array();
    }
    for (const json& item : Items(*part, "items")) {
      all["items"].push_back(item);
    }
    for (const char* key : {"next_cursor", "rev", "total_estimate", "user"}) {
      all[key] = Member(*part, key);
    }
    if (Text(all, "next_cursor").empty() || all["items"].size() >= limit ||
        Items(*part, "items").empty()) {
      return all;
    }
  }
}

void Context::Print(std::string_view text) const {
  // An empty view may have no data, which fwrite must not be given.
  const bool written =
      text.empty() || std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0) {
    ::_exit(ReportOutput());
  }
}

int Context::Finish() const {
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  return written ? exit_code : ReportOutput();
}

int Context::ReportOutput() const {
  const auto why = FailErrno("cannot write to standard output", errno);
  return Report({own_failure, why.error().message, {}, false});
}

void Context::Hint(const std::string& text) const {
  if (!options.quiet) {
    std::fprintf(stderr, "%s\n", text.c_str());
  }
}

void Context::PrintJson(const json& value) const {
  Print(Dump(value, format() == Format::kJsonl ? -1 : 2));
}

void Context::PrintList(const json& list,
                        const char* name,
                        const std::function<Table()>& table) const {
  switch (format()) {
    case Format::kJson:
      PrintJson(list);
      return;
    case Format::kJsonl:
      for (const json& item : Items(list, "items")) {
        PrintJson(item);
      }
      return;
    case Format::kName:
      for (const json& item : Items(list, "items")) {
        Print(Printable(Text(item, name)) + "\n");
      }
      return;
    case Format::kTable:
      break;
  }
  const Table made = table();
  if (!made.empty()) {
    Print(made.Render(OutStyle()));
  }
}

int Context::Report(const Failure& failure, std::string_view file) const {
  std::fputs(FormatFailure(failure, file).c_str(), stderr);
  return failure.exit_code;
}

}  // namespace tide::cli
