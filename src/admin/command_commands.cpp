// COMMAND: the table as clients ask for it. Lists only what the proxy serves.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "admin/handlers.h"
#include "penstock/config/glob.h"
#include "penstock/command/key_finder.h"

namespace penstock::admin {
namespace {

using command::Command;
using command::CommandTable;
using command::equals_ignoring_case;
using command::Handling;
using command::KeySpec;

bool is_served(const CommandTable& commands, const Command& command) {
  if (command.handling == Handling::not_yet || command.handling == Handling::refused) return false;
  if (command.handling != Handling::container) return true;
  const auto subcommands = commands.subcommands(command);
  return std::any_of(subcommands.begin(), subcommands.end(), [&](const Command& each) {
    return is_served(commands, each);
  });
}

bool is_subcommand(const Command& command) {
  return command.name.find('|') != std::string_view::npos;
}

std::vector<const Command*> served_top_level(const CommandTable& commands) {
  std::vector<const Command*> out;
  for (const Command& each : commands.all()) {
    if (!is_subcommand(each) && is_served(commands, each)) out.push_back(&each);
  }
  return out;
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const std::size_t space = std::min(text.find(' '), text.size());
    out.push_back(text.substr(0, space));
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  return out;
}

template <std::size_t N>
void reply_bits(resp::ReplyWriter& reply, std::uint32_t bits,
                const std::array<std::string_view, N>& names, std::string_view prefix) {
  reply.set(static_cast<std::size_t>(std::popcount(bits)));
  for (std::size_t i = 0; i < N; ++i) {
    if ((bits >> i & 1) != 0) reply.status(fmt::format("{}{}", prefix, names[i]));
  }
}

void reply_number_field(resp::ReplyWriter& reply, std::string_view name, int value) {
  reply.bulk(name);
  reply.integer(value);
}

void reply_begin_search(resp::ReplyWriter& reply, const KeySpec& spec) {
  reply.bulk("begin_search");
  reply.map(2);
  reply.bulk("type");
  switch (spec.begin) {
    case KeySpec::Begin::index:
      reply.bulk("index");
      reply.bulk("spec");
      reply.map(1);
      return reply_number_field(reply, "index", spec.first);
    case KeySpec::Begin::keyword:
      reply.bulk("keyword");
      reply.bulk("spec");
      reply.map(2);
      reply.bulk("keyword");
      reply.bulk(spec.keyword);
      return reply_number_field(reply, "startfrom", spec.first);
    case KeySpec::Begin::unknown:
      reply.bulk("unknown");
      reply.bulk("spec");
      return reply.map(0);
  }
}

void reply_find_keys(resp::ReplyWriter& reply, const KeySpec& spec) {
  reply.bulk("find_keys");
  reply.map(2);
  reply.bulk("type");
  switch (spec.find) {
    case KeySpec::Find::range:
      reply.bulk("range");
      reply.bulk("spec");
      reply.map(3);
      reply_number_field(reply, "lastkey", spec.last);
      reply_number_field(reply, "keystep", spec.step);
      return reply_number_field(reply, "limit", spec.limit);
    case KeySpec::Find::keynum:
      reply.bulk("keynum");
      reply.bulk("spec");
      reply.map(3);
      reply_number_field(reply, "keynumidx", spec.count_at);
      reply_number_field(reply, "firstkey", spec.keys_at);
      return reply_number_field(reply, "keystep", spec.step);
    case KeySpec::Find::unknown:
      reply.bulk("unknown");
      reply.bulk("spec");
      return reply.map(0);
  }
}

void reply_key_specs(resp::ReplyWriter& reply, const Command& command) {
  reply.set(command.keys().size());
  for (const KeySpec& spec : command.keys()) {
    reply.map(spec.notes.empty() ? 3 : 4);
    if (!spec.notes.empty()) {
      reply.bulk("notes");
      reply.bulk(spec.notes);
    }
    reply.bulk("flags");
    const auto flags = words(spec.flags);
    reply.set(flags.size());
    for (const std::string_view flag : flags) reply.status(flag);
    reply_begin_search(reply, spec);
    reply_find_keys(reply, spec);
  }
}

void reply_info(resp::ReplyWriter& reply, const CommandTable& commands, const Command& command) {
  reply.array(10);
  reply.bulk(command.name);
  reply.integer(command.arity);
  reply_bits(reply, command.flags, command::kFlagNames, "");
  reply.integer(command.first_key);
  reply.integer(command.last_key);
  reply.integer(command.key_step);
  reply_bits(reply, command.categories, command::kCategoryNames, "@");
  const auto tips = words(command.tips);
  reply.set(tips.size());
  for (const std::string_view tip : tips) reply.bulk(tip);
  reply_key_specs(reply, command);
  std::vector<const Command*> served;
  for (const Command& each : commands.subcommands(command)) {
    if (is_served(commands, each)) served.push_back(&each);
  }
  reply.set(served.size());
  for (const Command* each : served) reply_info(reply, commands, *each);
}

void command(LocalCall& call, const AdminContext& context) {
  const auto served = served_top_level(context.commands);
  call.reply.array(served.size());
  for (const Command* each : served) reply_info(call.reply, context.commands, *each);
}

void count(LocalCall& call, const AdminContext& context) {
  call.reply.integer(static_cast<std::int64_t>(served_top_level(context.commands).size()));
}

// A served command by its full name, or null.
const Command* find_served(const AdminContext& context, std::string_view name) {
  const Command* found = context.commands.find_full(name);
  return found != nullptr && is_served(context.commands, *found) ? found : nullptr;
}

void info(LocalCall& call, const AdminContext& context) {
  if (call.request.size() == 2) return command(call, context);
  call.reply.array(call.request.size() - 2);
  for (std::size_t i = 2; i < call.request.size(); ++i) {
    const Command* found = find_served(context, call.request[i]);
    if (found == nullptr) {
      call.reply.null();
    } else {
      reply_info(call.reply, context.commands, *found);
    }
  }
}

// COMMAND LIST [FILTERBY (MODULE name | ACLCAT category | PATTERN glob)]; an error text, or none.
std::string filter_list(const resp::Request& request, std::vector<const Command*>& list) {
  if (request.size() == 2) return {};
  if (request.size() != 5 || !equals_ignoring_case(request[2], "filterby")) {
    return "ERR syntax error";
  }
  const std::string_view value = request[4];
  if (equals_ignoring_case(request[3], "module")) {
    list.clear();
  } else if (equals_ignoring_case(request[3], "aclcat")) {
    std::size_t bit = 0;
    while (bit < command::kCategoryNames.size() &&
           !equals_ignoring_case(value, command::kCategoryNames[bit])) {
      ++bit;
    }
    std::erase_if(list, [bit](const Command* each) { return (each->categories >> bit & 1) == 0; });
  } else if (equals_ignoring_case(request[3], "pattern")) {
    std::erase_if(list, [value](const Command* each) {
      return !config::matches_glob(value, each->name);
    });
  } else {
    return "ERR syntax error";
  }
  return {};
}

void list(LocalCall& call, const AdminContext& context) {
  std::vector<const Command*> served;
  for (const Command& each : context.commands.all()) {
    if (is_served(context.commands, each)) served.push_back(&each);
  }
  const std::string error = filter_list(call.request, served);
  if (!error.empty()) return call.reply.error(error);
  call.reply.array(served.size());
  for (const Command* each : served) call.reply.bulk(each->name);
}

std::string_view summary(const Command& command) {
  switch (command.handling) {
    case Handling::by_keys: return "Sent to the shard that owns its keys.";
    case Handling::local: return "Answered by the proxy.";
    case Handling::split_values:
    case Handling::split_all_ok:
    case Handling::split_sum: return "Split per slot, run in parallel and merged.";
    case Handling::any_master: return "Sent to any master.";
    case Handling::slot_argument: return "Sent to the shard that owns the slot.";
    case Handling::debug: return "OBJECT and PROTOCOL only.";
    case Handling::xread: return "Sent to the shard that owns its keys; without BLOCK.";
    case Handling::container: return "A container of subcommands.";
    case Handling::not_yet:
    case Handling::refused: break;
  }
  return "Not served.";
}

std::string_view group(const Command& command) {
  constexpr std::string_view kGroups[] = {"string", "list", "set", "sortedset", "hash",
                                          "hyperloglog", "geo", "stream", "bitmap", "scripting",
                                          "pubsub", "transaction", "connection"};
  for (const std::string_view each : kGroups) {
    for (std::size_t bit = 0; bit < command::kCategoryNames.size(); ++bit) {
      if (command::kCategoryNames[bit] != each || (command.categories >> bit & 1) == 0) continue;
      return each == "sortedset" ? std::string_view("sorted-set") : each;
    }
  }
  return command.keys().empty() ? "server" : "generic";
}

// What the proxy does with a command; the server's own documentation knows the rest.
void reply_docs(resp::ReplyWriter& reply, const CommandTable& commands, const Command& command) {
  std::vector<const Command*> served;
  for (const Command& each : commands.subcommands(command)) {
    if (is_served(commands, each)) served.push_back(&each);
  }
  reply.bulk(command.name);
  reply.map(served.empty() ? 2 : 3);
  reply.bulk("summary");
  reply.bulk(summary(command));
  reply.bulk("group");
  reply.bulk(group(command));
  if (served.empty()) return;
  reply.bulk("subcommands");
  reply.map(served.size());
  for (const Command* each : served) reply_docs(reply, commands, *each);
}

void docs(LocalCall& call, const AdminContext& context) {
  std::vector<const Command*> wanted;
  if (call.request.size() == 2) {
    wanted = served_top_level(context.commands);
  } else {
    for (std::size_t i = 2; i < call.request.size(); ++i) {
      const Command* found = find_served(context, call.request[i]);
      if (found != nullptr) wanted.push_back(found);
    }
  }
  call.reply.map(wanted.size());
  for (const Command* each : wanted) reply_docs(call.reply, context.commands, *each);
}

// What a specification marks as not_key is hashed like a key, but is none (a shard channel).
bool has_keys(const Command& command) {
  const auto specs = command.keys();
  return std::any_of(specs.begin(), specs.end(), [](const KeySpec& spec) {
    return spec.flags.find("not_key") == std::string_view::npos;
  });
}

void get_keys(LocalCall& call, const AdminContext& context, bool with_flags) {
  // The command to look at is the rest of this one; its arguments are views into the same frame.
  std::vector<resp::Argument> arguments;
  const char* const frame = call.request.frame().data();
  for (std::size_t i = 2; i < call.request.size(); ++i) {
    arguments.push_back({static_cast<std::uint32_t>(call.request[i].data() - frame),
                         static_cast<std::uint32_t>(call.request[i].size())});
  }
  const resp::Request inner(call.request.frame(), arguments);
  const Command* found = context.commands.find(inner[0]);
  if (found != nullptr && found->subcommand_count > 0 && inner.size() > 1) {
    found = context.commands.find_subcommand(*found, inner[1]);
  }
  if (found == nullptr) return call.reply.error("ERR Invalid command specified");
  if (!has_keys(*found)) return call.reply.error("ERR The command has no key arguments");
  if (!found->takes(inner.size())) {
    return call.reply.error("ERR Invalid number of arguments specified for command");
  }
  std::vector<command::KeyPosition> keys;
  const bool fits = command::find_keys(*found, inner, keys) && !keys.empty();
  if (!fits && !found->has(command::kFlagNoMandatoryKeys)) {
    return call.reply.error("ERR Invalid arguments specified for command");
  }
  call.reply.array(keys.size());
  for (const command::KeyPosition& key : keys) {
    if (with_flags) call.reply.array(2);
    call.reply.bulk(inner[key.argument]);
    if (!with_flags) continue;
    const auto flags = words(command::key_flags(*found, inner, key));
    call.reply.set(flags.size());
    for (const std::string_view flag : flags) call.reply.status(flag);
  }
}

void get_keys_only(LocalCall& call, const AdminContext& context) {
  get_keys(call, context, false);
}
void get_keys_and_flags(LocalCall& call, const AdminContext& context) {
  get_keys(call, context, true);
}

void help(LocalCall& call, const AdminContext&) {
  reply_help(call.reply,
             {"COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
              "(no subcommand)", "    Return details about all commands that the proxy serves.",
              "COUNT", "    Return the total number of commands that the proxy serves.",
              "DOCS [<command-name> ...]", "    Return what the proxy does with the commands.",
              "GETKEYS <full-command>", "    Return the keys from a full command.",
              "GETKEYSANDFLAGS <full-command>",
              "    Return the keys and the access flags from a full command.",
              "INFO [<command-name> ...]", "    Return details about multiple commands.",
              "LIST", "    Return a list of all commands that the proxy serves.",
              "HELP", "    Prints this help."});
}

constexpr NamedHandler kHandlers[] = {
    {"command", command},
    {"command|count", count},
    {"command|info", info},
    {"command|list", list},
    {"command|docs", docs},
    {"command|getkeys", get_keys_only},
    {"command|getkeysandflags", get_keys_and_flags},
    {"command|help", help},
};

}  // namespace

std::span<const NamedHandler> command_handlers() { return kHandlers; }

}  // namespace penstock::admin
