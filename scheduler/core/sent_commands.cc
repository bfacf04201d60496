#include "scheduler/core/sent_commands.h"

namespace tide {

bool SentCommands::Note(const Command& command) {
  if (!sent_.insert(KeyOf(command)).second) {
    return false;
  }
  Prune(command);
  return true;
}

SentCommands::Key SentCommands::KeyOf(const Command& command) {
  return {command.kind,
          command.job.value(),
          command.epoch.value(),
          command.task,
          command.deadline.unix_nanos(),
          command.kill,
          command.grace.nanos(),
          command.request_id};
}

void SentCommands::Prune(const Command& command) {
  const auto drop = [&](CommandKind kind) {
    std::erase_if(sent_, [&](const Key& each) {
      return std::get<0>(each) == kind && std::get<1>(each) == command.job.value();
    });
  };
  switch (command.kind) {
    case CommandKind::kForgetTask:
      std::erase_if(sent_, [&](const Key& each) {
        return std::get<1>(each) == command.job.value() &&
               std::get<2>(each) == command.epoch.value() && std::get<3>(each) == command.task;
      });
      break;
    case CommandKind::kWithdrawSuspend:
      drop(CommandKind::kSuspendTask);  // a later suspension with the same deadline is a new order
      break;
    case CommandKind::kSuspendTask:
      drop(CommandKind::kWithdrawSuspend);
      break;
    case CommandKind::kValidate:
      drop(CommandKind::kValidate);
      sent_.insert(KeyOf(command));
      break;
    case CommandKind::kFetchImage:
      // Claims come and go; that something is fetched again costs a look into the node's store.
      if (++images_ > kImagesMax) {
        std::erase_if(
            sent_, [](const Key& each) { return std::get<0>(each) == CommandKind::kFetchImage; });
        sent_.insert(KeyOf(command));
        images_ = 1;
      }
      break;
    case CommandKind::kDumpStacks:
      drop(CommandKind::kDumpStacks);
      sent_.insert(KeyOf(command));
      break;
    case CommandKind::kStartTask:
    case CommandKind::kStopTask:
      break;
  }
}

}  // namespace tide
