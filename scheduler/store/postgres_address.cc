#include "scheduler/store/postgres_address.h"

#include <libpq-fe.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>

#include "scheduler/store/text.h"

namespace tide {
namespace {

constexpr std::string_view kConninfoPrefix = "postgresql:";

// Unless the address says otherwise. The driver has deadlines of its own; these are for
// connections that are idle, and for what firewalls forget.
constexpr std::pair<const char*, const char*> kDefaults[] = {
    {"fallback_application_name", "tide-scheduler"},
    {"client_encoding", "UTF8"},
    {"keepalives_idle", "5"},
    {"keepalives_interval", "1"},
    {"keepalives_count", "5"},
    {"tcp_user_timeout", "10000"},
};

bool IsUri(std::string_view text) {
  return text.starts_with("postgres://") || text.starts_with("postgresql://");
}

std::vector<std::string> SplitAtCommas(const std::string& list) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (true) {
    const size_t comma = list.find(',', begin);
    parts.push_back(list.substr(begin, comma - begin));
    if (comma == std::string::npos) {
      return parts;
    }
    begin = comma + 1;
  }
}

// "postgres://user:pa/ss@host/db" would be read as the host "user", the port "pa" and a database
// "ss@host/db", and its password be told in every message.
bool HidesPassword(std::string_view uri) {
  const size_t begin = uri.find("//") + 2;
  const size_t end = uri.find('?', begin);
  const std::string_view place = uri.substr(begin, end - begin);
  const size_t last = place.rfind('@');
  return last != std::string_view::npos && (place.find('@') != last || place.find('/') < last);
}

std::unexpected<Error> Refuse(const std::string& text, const std::string& why) {
  const std::string shown = MayHoldPassword(text) ? "the address of the store" : text;
  return Fail(ErrorCode::kInvalidArgument,
              shown + " is not a PostgreSQL address" + why +
                  ": expected postgres://USER@HOST:PORT/DATABASE or \"postgresql:host=HOST "
                  "dbname=DATABASE user=USER\"");
}

}  // namespace

bool MayHoldPassword(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(
      lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower.find("pass") != std::string::npos) {
    return true;
  }
  // "scheme://user:secret@host"
  const size_t at = text.rfind('@');
  const size_t slashes = text.find("//");
  return at != std::string_view::npos &&
         text.substr(0, at).find(':', slashes == std::string_view::npos ? 0 : slashes) !=
             std::string_view::npos;
}

bool IsPostgresAddress(std::string_view text) {
  return IsUri(text) || text.starts_with(kConninfoPrefix);
}

Result<PostgresAddress> ParsePostgresAddress(const std::string& text) {
  const std::string conninfo = IsUri(text) || !text.starts_with(kConninfoPrefix)
                                   ? text
                                   : text.substr(kConninfoPrefix.size());
  if (IsUri(conninfo) && HidesPassword(conninfo)) {
    return Refuse(text, " (write @ and / in a user's name or password as %40 and %2F)");
  }
  char* complaint = nullptr;
  const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> options(
      PQconninfoParse(conninfo.c_str(), &complaint), &PQconninfoFree);
  const std::unique_ptr<char, decltype(&PQfreemem)> complaint_owner(complaint, &PQfreemem);
  if (!options) {
    const bool tell = complaint != nullptr && !MayHoldPassword(text);
    return Refuse(text, tell ? " (" + OneLine(complaint) + ")" : "");
  }
  std::map<std::string, std::string> given;
  for (const PQconninfoOption* option = options.get(); option->keyword != nullptr; ++option) {
    if (option->val != nullptr) {
      given[option->keyword] = option->val;
    }
  }
  PostgresAddress address;
  address.has_password = given.contains("password") || given.contains("sslpassword");
  for (const auto& [keyword, value] : kDefaults) {
    given.try_emplace(keyword, value);
  }
  size_t count = 1;
  std::map<std::string, std::vector<std::string>> lists;
  for (const char* keyword : {"host", "hostaddr", "port"}) {
    if (const auto it = given.find(keyword); it != given.end()) {
      lists[keyword] = SplitAtCommas(it->second);
      count = std::max(count, lists[keyword].size());
    }
  }
  for (size_t i = 0; i < count; ++i) {
    std::map<std::string, std::string> server = given;
    for (const auto& [keyword, values] : lists) {
      if (values.size() != 1 && values.size() != count) {
        return Refuse(text, " (its lists of hosts and ports differ in length)");
      }
      server[keyword] = values.size() == 1 ? values[0] : values[i];
    }
    address.servers.emplace_back(server.begin(), server.end());
  }
  return address;
}

}  // namespace tide
