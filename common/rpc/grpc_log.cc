#include "common/rpc/grpc_log.h"

#include <grpc/support/log.h>

#include <atomic>
#include <string_view>

#include "common/log/log.h"
#include "common/rpc/turn.h"

namespace tide::rpc {
namespace {

constexpr Duration kEvery = Duration::Seconds(1);
std::atomic<int64_t> next_line = 0;

void Forward(gpr_log_func_args* args) {
  const std::string_view text(args->message);
  // A server says so of each client that asks for it by address. Identities are no names of hosts.
  constexpr std::string_view kNoHost = "No match found for server name";
  if (args->severity < GPR_LOG_SEVERITY_ERROR || text.starts_with(kNoHost) ||
      !IsTurn(next_line, kEvery)) {
    return;
  }
  log::Warning("gRPC reports an error", {{"Error", text}});
}

}  // namespace

void LogWhatGrpcReports() {
  gpr_set_log_function(Forward);
}

}  // namespace tide::rpc
