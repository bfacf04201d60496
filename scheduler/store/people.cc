#include "scheduler/store/people.h"

#include <charconv>
#include <optional>
#include <utility>

#include "scheduler/store/row_sum.h"
#include "scheduler/store/rows.h"
#include "scheduler/store/summed_rows.h"
#include "scheduler/store/text.h"

namespace tide {
namespace {

constexpr const char* kAfterAllMoments = "9999";
constexpr std::string_view kNextUser = "next_user_number";
constexpr std::string_view kNextProject = "next_project_number";
constexpr std::string_view kNextToken = "next_token_number";

// A moment as its column: '' = not set, "never".
std::string MomentText(Instant at) {
  return at == Instant::Never() ? "never" : FormatRfc3339(at);
}

std::string GidsText(const std::vector<uint32_t>& gids) {
  std::string text;
  for (const uint32_t gid : gids) {
    text += (text.empty() ? "" : ",") + std::to_string(gid);
  }
  return text;
}

std::optional<std::vector<uint32_t>> ParseGids(std::string_view text) {
  std::vector<uint32_t> gids;
  while (!text.empty()) {
    uint32_t gid = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), gid);
    if (error != std::errc()) {
      return std::nullopt;
    }
    gids.push_back(gid);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    text.remove_prefix(text.starts_with(',') ? 1 : 0);
  }
  return gids;
}

// The next number of a kind is beyond that of every record there ever was.
Status CountBeyond(Database& database, std::string_view counter, uint64_t number) {
  std::vector<SqlValue> params = {std::string(counter), SqlInt(number + 1)};
  params.emplace_back(RowSum(Tables().counters.summed_as()).Add(params).value());
  return database.Queue(
      "INSERT INTO counters (name, value, sum) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE "
      "SET value = excluded.value, sum = excluded.sum WHERE excluded.value > counters.value",
      params);
}

Status Delete(Database& database, std::string_view sql, uint64_t number) {
  const std::vector<SqlValue> params = {SqlInt(number)};
  return database.Queue(sql, params);
}

Status Write(Database& database, const User& user) {
  TIDE_TRY(CountBeyond(database, kNextUser, user.number));
  return WriteRow(database,
                  Tables().users,
                  {SqlInt(user.number),
                   user.name,
                   std::string(RoleName(user.role)),
                   int64_t{user.uid},
                   GidsText(user.gids),
                   user.project,
                   MomentText(user.created_at),
                   int64_t{user.removed ? 1 : 0}});
}

Status WriteMembers(Database& database, const Project& project) {
  const std::vector<SqlValue> all = {project.name};
  TIDE_TRY(database.Queue("DELETE FROM members WHERE project = $1", all));
  if (project.removed) {
    return {};
  }
  for (const Member& member : project.members) {
    TIDE_TRY(WriteRow(
        database,
        Tables().members,
        {project.name, member.user, int64_t{member.max_class}, int64_t{member.exec ? 1 : 0}}));
  }
  return {};
}

Status Write(Database& database, const Project& project) {
  TIDE_TRY(CountBeyond(database, kNextProject, project.number));
  TIDE_TRY(WriteMembers(database, project));
  if (project.removed) {
    return Delete(database, "DELETE FROM projects WHERE number = $1", project.number);
  }
  return WriteRow(database,
                  Tables().projects,
                  {SqlInt(project.number),
                   project.name,
                   int64_t{project.visible ? 1 : 0},
                   MomentText(project.created_at)});
}

Status Write(Database& database, const Token& token) {
  TIDE_TRY(CountBeyond(database, kNextToken, token.number));
  if (token.removed) {
    return Delete(database, "DELETE FROM tokens WHERE number = $1", token.number);
  }
  return WriteRow(database,
                  Tables().tokens,
                  {SqlInt(token.number),
                   token.user,
                   std::string(TokenKindName(token.kind)),
                   ReadableText(token.label),
                   token.sha256,
                   ScopesText(token.scopes),
                   MomentText(token.created_at),
                   MomentText(token.expires_at),
                   MomentText(token.used_at),
                   SqlInt(token.maker)});
}

// Reads the columns of one row; remembers the first that cannot be understood.
class RowReader {
 public:
  RowReader(const SqlRow& row, std::string table) : row_(row), table_(std::move(table)) {}

  std::string Text(std::string_view column) {
    auto read = TextAt(row_, next_++, table_ + "." + std::string(column));
    if (!read) {
      Note(read.error());
      return {};
    }
    return *std::move(read);
  }
  int64_t Int(std::string_view column) {
    const auto read = IntAt(row_, next_++, table_ + "." + std::string(column));
    if (!read) {
      Note(read.error());
      return 0;
    }
    return *read;
  }
  uint64_t Number(std::string_view column) { return static_cast<uint64_t>(Int(column)); }
  Instant Moment(std::string_view column) {
    const std::string text = Text(column);
    const auto at = ParseRfc3339(text);
    if (text == "never") {
      return Instant::Never();
    }
    if (!text.empty() && !at) {
      Note(column, text);
    }
    return at.value_or(Instant());
  }
  // The value of `parsed`, which was read from `text`.
  template <typename T>
  T Known(std::optional<T> parsed, std::string_view column, const std::string& text) {
    if (!parsed) {
      Note(column, text);
    }
    return std::move(parsed).value_or(T());
  }
  [[nodiscard]] Status Finish() const {
    return error_ ? Status(std::unexpected(*error_)) : Status();
  }

 private:
  void Note(const Error& error) {
    if (!error_) {
      error_ = error;
    }
  }
  void Note(std::string_view column, const std::string& text) {
    Note({ErrorCode::kCorrupt,
          table_ + "." + std::string(column) + " is \"" + OneLine(text) +
              "\", which is none of its values: restore the row from a backup"});
  }

  const SqlRow& row_;
  const std::string table_;
  size_t next_ = 0;
  std::optional<Error> error_;
};

std::optional<TokenKind> ParseKind(std::string_view name) {
  for (const TokenKind kind : {TokenKind::kToken, TokenKind::kSession, TokenKind::kCode}) {
    if (TokenKindName(kind) == name) {
      return kind;
    }
  }
  return std::nullopt;
}

Status LoadUsers(Database& database, StoredPeople& people) {
  TIDE_ASSIGN(const SqlRows found, ReadRows(database, Tables().users, "ORDER BY number"));
  for (const SqlRow& row : found.rows) {
    RowReader in(row, "users");
    User user;
    user.number = in.Number("number");
    user.name = in.Text("name");
    const std::string role = in.Text("role");
    user.role = in.Known(ParseRole(role), "role", role);
    user.uid = static_cast<uint32_t>(in.Int("uid"));
    const std::string gids = in.Text("gids");
    user.gids = in.Known(ParseGids(gids), "gids", gids);
    user.project = in.Text("project");
    user.created_at = in.Moment("created_at");
    user.removed = in.Int("removed") != 0;
    TIDE_TRY(in.Finish());
    people.next_user = user.number + 1;
    if (user.removed) {
      people.gone_users.emplace(user.name, user.number);
    } else {
      people.directory.Put(std::move(user));
    }
  }
  return {};
}

Status LoadProjects(Database& database, StoredPeople& people) {
  TIDE_ASSIGN(const SqlRows members,
              ReadRows(database, Tables().members, "ORDER BY project, user_name"));
  std::map<std::string, std::vector<Member>> by_project;
  for (const SqlRow& row : members.rows) {
    RowReader in(row, "members");
    const std::string project = in.Text("project");
    Member member;
    member.user = in.Text("user_name");
    member.max_class = static_cast<int32_t>(in.Int("max_class"));
    member.exec = in.Int("exec") != 0;
    TIDE_TRY(in.Finish());
    by_project[project].push_back(std::move(member));
  }
  TIDE_ASSIGN(const SqlRows found, ReadRows(database, Tables().projects, "ORDER BY number"));
  for (const SqlRow& row : found.rows) {
    RowReader in(row, "projects");
    Project project;
    project.number = in.Number("number");
    project.name = in.Text("name");
    project.visible = in.Int("visible") != 0;
    project.created_at = in.Moment("created_at");
    TIDE_TRY(in.Finish());
    project.members = std::move(by_project[project.name]);
    people.next_project = project.number + 1;
    people.directory.Put(std::move(project));
  }
  return {};
}

Status LoadTokens(Database& database, StoredPeople& people) {
  TIDE_ASSIGN(const SqlRows found, ReadRows(database, Tables().tokens, "ORDER BY number"));
  for (const SqlRow& row : found.rows) {
    RowReader in(row, "tokens");
    Token token;
    token.number = in.Number("number");
    token.user = in.Text("user_name");
    const std::string kind = in.Text("kind");
    token.kind = in.Known(ParseKind(kind), "kind", kind);
    token.label = in.Text("label");
    token.sha256 = in.Text("sha256");
    const std::string scopes = in.Text("scopes");
    token.scopes = in.Known(ParseScopes(scopes), "scopes", scopes);
    token.created_at = in.Moment("created_at");
    token.expires_at = in.Moment("expires_at");
    token.used_at = in.Moment("used_at");
    token.maker = in.Number("maker");
    TIDE_TRY(in.Finish());
    people.next_token = token.number + 1;
    people.directory.Put(std::move(token));
  }
  return {};
}

// Numbers are never given twice, also of rows that are gone.
Status LoadNumbers(Database& database, StoredPeople& people) {
  TIDE_ASSIGN(const SqlRows found, ReadRows(database, Tables().counters));
  for (const SqlRow& row : found.rows) {
    TIDE_ASSIGN(const std::string name, TextAt(row, 0, "counters.name"));
    TIDE_ASSIGN(const int64_t value, IntAt(row, 1, "counters.value"));
    for (const auto& [counter, next] : {std::pair{kNextUser, &people.next_user},
                                        std::pair{kNextProject, &people.next_project},
                                        std::pair{kNextToken, &people.next_token}}) {
      if (name == counter) {
        *next = std::max(*next, static_cast<uint64_t>(value));
      }
    }
  }
  return {};
}

}  // namespace

Status WritePeopleRecord(Database& database, const PeopleRecord& record) {
  return std::visit([&database](const auto& each) { return Write(database, each); }, record);
}

Status WriteAuditEntry(Database& database, const AuditEntry& entry) {
  const std::vector<SqlValue> params = {FormatRfc3339(entry.at),
                                        ReadableText(entry.user),
                                        SqlInt(entry.token),
                                        ReadableText(entry.address),
                                        entry.operation,
                                        ReadableText(entry.object),
                                        ReadableText(entry.owner),
                                        entry.outcome,
                                        ReadableText(entry.detail),
                                        ReadableText(entry.request_id)};
  return database.Queue(
      "INSERT INTO audit (seq, at, user_name, token, address, operation, object, owner, outcome, "
      "detail, request_id) VALUES ((SELECT COALESCE(MAX(seq), 0) + 1 FROM audit), $1, $2, $3, $4, "
      "$5, $6, $7, $8, $9, $10)",
      params);
}

Result<StoredPeople> LoadPeople(Database& database) {
  StoredPeople people;
  TIDE_TRY(LoadUsers(database, people));
  TIDE_TRY(LoadProjects(database, people));
  TIDE_TRY(LoadTokens(database, people));
  TIDE_TRY(LoadNumbers(database, people));
  return people;
}

Result<std::vector<AuditEntry>> ReadAudit(Database& database, const AuditQuery& query) {
  // Moments are texts of one length, which stand in the order of time.
  const std::vector<SqlValue> params = {
      SqlInt(query.from),
      FormatRfc3339(query.since),
      query.until.is_set() ? FormatRfc3339(query.until) : std::string(kAfterAllMoments),
      ReadableText(query.user),
      query.operation,
      SqlInt(query.most)};
  TIDE_ASSIGN(const SqlRows found,
              database.Run("SELECT seq, at, user_name, token, address, operation, object, owner, "
                           "outcome, detail, request_id FROM audit WHERE seq >= $1 AND at >= $2 "
                           "AND at < $3 AND ($4 = '' OR user_name = $4) "
                           "AND ($5 = '' OR operation = $5) ORDER BY seq LIMIT $6",
                           params));
  std::vector<AuditEntry> entries;
  for (const SqlRow& row : found.rows) {
    RowReader in(row, "audit");
    AuditEntry& entry = entries.emplace_back();
    entry.seq = in.Number("seq");
    entry.at = in.Moment("at");
    entry.user = in.Text("user_name");
    entry.token = in.Number("token");
    entry.address = in.Text("address");
    entry.operation = in.Text("operation");
    entry.object = in.Text("object");
    entry.owner = in.Text("owner");
    entry.outcome = in.Text("outcome");
    entry.detail = in.Text("detail");
    entry.request_id = in.Text("request_id");
    TIDE_TRY(in.Finish());
  }
  return entries;
}

}  // namespace tide
