#pragma once
// The verbs of `tide`, one function each, in the order of `tide --help`. Each adds a subcommand
// that leaves its exit code in the context.

namespace CLI {
class App;
}  // namespace CLI

namespace tide::cli {

class Context;

void AddRunVerb(CLI::App& app, Context& context);
void AddSubmitVerb(CLI::App& app, Context& context);
void AddPlanVerb(CLI::App& app, Context& context);
void AddPsVerb(CLI::App& app, Context& context);
void AddShowVerb(CLI::App& app, Context& context);
void AddCheckpointsVerb(CLI::App& app, Context& context);
void AddWhyVerb(CLI::App& app, Context& context);
void AddLogsVerb(CLI::App& app, Context& context);
void AddWaitVerb(CLI::App& app, Context& context);
void AddExecVerbs(CLI::App& app, Context& context);        // exec, shell
void AddJobControlVerbs(CLI::App& app, Context& context);  // suspend, resume, cancel
void AddMoveVerb(CLI::App& app, Context& context);
void AddSignInVerbs(CLI::App& app, Context& context);  // login, logout, whoami, ui
void AddTokenVerb(CLI::App& app, Context& context);    // token create, list, revoke
void AddUserVerb(CLI::App& app, Context& context);     // user list, add, set, remove
void AddProjectVerb(CLI::App& app, Context& context);  // project list, set, remove, add, drop
void AddSecretVerb(CLI::App& app, Context& context);   // secret set, list, remove
void AddImagesVerb(CLI::App& app, Context& context);   // images, images pull
void AddNodesVerb(CLI::App& app, Context& context);
void AddNodeVerb(CLI::App& app, Context& context);
void AddDrainVerbs(CLI::App& app, Context& context);  // drain, undrain
void AddValidateVerb(CLI::App& app, Context& context);
void AddUsageVerb(CLI::App& app, Context& context);
void AddFaultsVerb(CLI::App& app, Context& context);
void AddSimVerb(CLI::App& app, Context& context);
void AddAdminVerb(CLI::App& app, Context& context);  // admin topology check, and those of the next
// admin backup, restore, snapshot, migrate: below `tide admin`, done by the program tide-admin.
void AddStoreVerbs(CLI::App& admin, Context& context);
void AddAuditVerb(CLI::App& admin, Context& context);  // admin audit
void AddCaVerbs(CLI::App& admin, Context& context);    // admin ca init, issue, list, revoke
// Lives in cli/dev; linked only where that folder is part of the build.
void AddDevVerb(CLI::App& app, Context& context);

}  // namespace tide::cli
