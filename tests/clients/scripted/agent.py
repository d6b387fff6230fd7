"""A coding agent's task: read a file, replace a text in it, run a command, with whatever tools the agent offers."""

import json
import re

TASK = re.compile(r'read (\S+), replace "([^"]*)" by "([^"]*)", run `([^`]*)`')


def next_call(conversation, asked):
    """The calls of the task's next step, none when it is done; None if this is no such task."""
    whole = " ".join(item.text for item in conversation.items if item.role == "user")
    # opencode quotes what it was given.
    task = TASK.search(asked) or TASK.search(whole) or TASK.search(whole.replace('\\"', '"'))
    if not task:
        return None
    path, old, new, command = task.groups()
    offered = {tool.name: tool for tool in conversation.tools}
    steps = plan(offered, path, old, new, command)
    done = sum(item.kind == "result" for item in conversation.items)
    return steps[done : done + 1]


def plan(offered, path, old, new, command):
    """The (name, arguments, freeform) of each step with these tools."""
    say = "Runs the command"
    # By the names of the tools: Claude Code, Qwen Code, Cline, opencode, Copilot CLI.
    known = {
        ("Read", "Edit", "Bash"): (
            call("Read", file_path=path),
            call("Edit", file_path=path, old_string=old, new_string=new),
            call("Bash", command=command, description=say),
        ),
        ("read_file", "edit", "run_shell_command"): (
            call("read_file", file_path=path),
            call("edit", file_path=path, old_string=old, new_string=new),
            call("run_shell_command", command=command, is_background=False, description=say),
        ),
        ("read_files", "editor", "run_commands"): (
            call("read_files", files=[{"path": path}]),
            call("editor", path=path, old_text=old, new_text=new),
            call("run_commands", commands=[command]),
        ),
        ("read", "edit", "bash"): (
            call("read", filePath=path),
            call("edit", filePath=path, oldString=old, newString=new),
            call("bash", command=command, description=say),
        ),
        ("view", "edit", "bash"): (
            call("view", path=path),
            call("edit", path=path, old_str=old, new_str=new),
            call("bash", command=command, description=say),
        ),
    }
    for names, steps in known.items():
        if offered.keys() >= set(names):
            return list(steps)
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


def listing(conversation, asked):
    """The edited file as a text, for an agent without tools that asks for a file listing and shows the file in a fence."""
    task = TASK.search(asked)
    shown = task and [item.text for item in conversation.items if item.role == "user" and f"```\n{task[2]}" in item.text]
    if not shown or "*file listing*" not in asked:
        return None
    content = shown[-1].rsplit("```\n", 1)[0].rsplit("```\n", 1)[-1]
    return f"{task[1].rsplit('/', 1)[-1]}\n```\n{content.replace(task[2], task[3])}```\n"


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
