"""A coding agent's task: read a file, replace a text in it, run a command, with whatever tools the agent offers."""

import json
import re

TASK = re.compile(r'read (\S+), replace "([^"]*)" by "([^"]*)", run `([^`]*)`')


def next_call(conversation, asked):
    """The calls of the task's next step, none when it is done; None if this is no such task."""
    task = TASK.search(asked) or TASK.search(" ".join(i.text for i in conversation.items if i.role == "user"))
    if not task:
        return None
    path, old, new, command = task.groups()
    offered = {tool.name: tool for tool in conversation.tools}
    steps = plan(offered, path, old, new, command)
    done = sum(item.kind == "result" for item in conversation.items)
    return steps[done : done + 1]


def plan(offered, path, old, new, command):
    """The (name, arguments, freeform) of each step with these tools."""
    if {"Read", "Edit", "Bash"} <= offered.keys():
        return [
            call("Read", file_path=path),
            call("Edit", file_path=path, old_string=old, new_string=new),
            call("Bash", command=command, description="Runs the command"),
        ]
    shell = next((name for name in ("exec_command", "shell_command", "shell", "container.exec") if name in offered), None)
    if shell is None:
        return []
    patch = f"*** Begin Patch\n*** Update File: {path}\n@@\n-{old}\n+{new}\n*** End Patch\n"
    if "apply_patch" in offered:
        tool = offered["apply_patch"]
        field = next(iter(tool.schema.get("properties", {})), "input")
        edit = ("apply_patch", patch if tool.freeform else json.dumps({field: patch}), tool.freeform)
    else:
        edit = run(shell, f"apply_patch <<'EOF'\n{patch}EOF")
    return [run(shell, f"cat {path}"), edit, run(shell, command)]


def run(shell, command):
    """A shell command in the form that this shell tool takes."""
    if shell == "exec_command":
        return call(shell, cmd=command)
    if shell == "shell_command":
        return call(shell, command=command)
    return call(shell, command=["bash", "-lc", command])


def call(name, **arguments):
    """A call with JSON arguments."""
    return name, json.dumps(arguments), False
