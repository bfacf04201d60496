#pragma once
// What every verb works with: the global options, the server, stdout and stderr.
// Belongs to the main thread.

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/client.h"
#include "cli/failure.h"
#include "cli/json_view.h"
#include "cli/style.h"
#include "cli/table.h"

namespace tide::cli {

enum class Format {
  kTable,
  kJson,   // the API's object
  kJsonl,  // one object per line
  kName,   // ids and names, for pipes
};

struct GlobalOptions {
  std::string output = "table";
  std::string server;
  std::string ca;
  std::string timeout;  // "" = as Client::Patience has it
  bool quiet = false;
  bool no_color = false;
};

class Context {
 public:
  GlobalOptions options;
  // The words after the first "--" of the command line, if there is one.
  std::optional<std::vector<std::string>> after_dashes;
  int exit_code = kExitOk;
  int own_failure = kExitFailed;  // kExitOwnFailure where the job's exit code is returned

  [[nodiscard]] Format format() const;
  [[nodiscard]] Style OutStyle() const { return DetectStyle(1, options.no_color); }
  [[nodiscard]] Style ErrStyle() const { return DetectStyle(2, options.no_color); }

  // The client for --server, --timeout and the profiles; made at the first call.
  [[nodiscard]] Answer<const Client*> Connect();
  // The server that it talks to, and where its address comes from.
  [[nodiscard]] Answer<Server> Address();
  // Before the first call: this token, and none of a profile.
  void UseToken(const std::string& token) { token_ = token; }
  // Body of the answer as JSON. An answer that is no JSON is a failure.
  [[nodiscard]] Answer<json> Get(const std::string& path);
  [[nodiscard]] Answer<json> Post(const std::string& path, const PostBody& body);
  // Bytes as they are.
  [[nodiscard]] Answer<json> Put(const std::string& path, const std::string& bytes);
  [[nodiscard]] Answer<json> Patch(const std::string& path, const std::string& bytes);
  [[nodiscard]] Answer<json> Delete(const std::string& path);
  // All pages of a list, at most `limit` items: an object like one page. `query` is "a=b" or "".
  [[nodiscard]] Answer<json> GetList(const std::string& path,
                                     const std::string& query,
                                     size_t limit);

  // To stdout, as it is. Ends the program where that cannot be written: nobody gets the rest.
  void Print(std::string_view text) const;
  void Hint(const std::string& text) const;  // one line to stderr unless --quiet
  void PrintJson(const json& value) const;   // one object in the format asked for
  // A list in the format asked for; `name` is the key that -o name prints.
  void PrintList(const json& list, const char* name, const std::function<Table()>& table) const;
  // Says on stderr what went wrong; returns the exit code. `file` is where a spec came from.
  int Report(const Failure& failure, std::string_view file = "") const;
  // The exit code at the end: `exit_code`, unless something written to stdout has not arrived.
  [[nodiscard]] int Finish() const;

 private:
  // Says why stdout cannot be written, by errno.
  int ReportOutput() const;

  std::optional<Client> client_;
  std::optional<std::string> token_;
};

}  // namespace tide::cli
