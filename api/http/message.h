#pragma once
// What a route sees of HTTP: plain values, so that handlers need no HTTP library and tests can
// call them directly.

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/gate/reply.h"
#include "api/http/auth.h"
#include "api/http/problem.h"
#include "common/people/permissions.h"

namespace tide::api {

inline constexpr std::string_view kSessionCookie = "tide_session";

struct Call {
  std::string request_id;
  Operation operation = Operation::kSeeSelf;  // of the route
  Actor who;                                  // nobody on open routes
  std::shared_ptr<const Directory> people;    // by which it was found out; null on open routes
  std::string address;                        // where the request came from
  bool over_https = false;                    // to this server, or to a proxy that is trusted
  std::string body;
  std::map<std::string, std::string> path;     // "ref" → "j-12"
  std::map<std::string, std::string> query;    // first value of each key
  std::map<std::string, std::string> headers;  // lower-case names, first value of each

  // Returns the caller as the scheduler wants to know it.
  [[nodiscard]] v1::Caller Caller() const {
    v1::Caller caller;
    caller.set_user(who.user);
    caller.set_token(who.token);
    caller.set_address(address);
    caller.set_request_id(request_id);
    return caller;
  }
  [[nodiscard]] Relation RelationTo(const v1::Job& job) const {
    if (who.job != 0) {
      return who.job == job.id() ? Relation::kOwn : Relation::kOther;
    }
    return people->RelationTo(who.user, job.user(), job.spec().project());
  }
  [[nodiscard]] std::string Query(const std::string& key) const { return Find(query, key); }
  [[nodiscard]] std::string Header(const std::string& key) const { return Find(headers, key); }
  [[nodiscard]] std::string Path(const std::string& key) const { return Find(path, key); }

 private:
  static std::string Find(const std::map<std::string, std::string>& in, const std::string& key) {
    const auto it = in.find(key);
    return it == in.end() ? std::string() : it->second;
  }
};

using Outcome = std::expected<Reply, Problem>;
using Handler = std::function<Outcome(const Call&)>;

}  // namespace tide::api
