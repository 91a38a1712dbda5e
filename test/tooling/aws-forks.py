"""Runs the AWS CLI for many, each time in a fork of one process that has loaded it.

Run as: SCRIPT FOLDER. Writes an `aws` into the folder, prints its version, and serves until its input
ends. Each `aws` sends its arguments, environment, folder and open files by a socket, so that the
fork is as good as a process of its own; it ends as that did.
"""

import gc
import json
import os
import socket
import sys
import threading
from pathlib import Path

import awscli
import awscli.handlers  # Each command loads it.
from awscli.clidriver import main

CLIENT = """#!{python} -SI
import json, os, socket, sys
told = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    socket.send_fds(server, [len(told).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(told)
    status = server.recv(1)
sys.exit(status[0] if status else "aws died")
"""


def receive(client):
    head, files, _, _ = socket.recv_fds(client, 8, 3)
    with client.makefile("rb") as told:
        return files, json.loads(told.read(int.from_bytes(head, "big")))


def run(client):
    files, (arguments, folder, environment) = receive(client)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    # The CLI sets this one itself, when it is loaded.
    os.environ.update({**environment, "AWS_DATA_PATH": data_path})
    sys.argv = ["aws", *arguments]
    try:
        status = main()
    except SystemExit as end:
        status = end.code
    sys.stdout.flush()
    sys.stderr.flush()
    client.sendall(bytes([status or 0]))


def forget_ended():
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        pass


def end_with_input():
    # Not by `sys.stdin`: forks would have its lock as it was here.
    while os.read(0, 1):
        pass
    os._exit(0)


if __name__ == "__main__":
    data_path = os.environ["AWS_DATA_PATH"]
    path = Path(sys.argv[1], "aws")
    address = f"{path}.socket"
    server = socket.socket(socket.AF_UNIX)
    server.bind(address)
    server.listen(64)
    path.write_text(CLIENT.format(python=sys.executable, address=address))
    path.chmod(0o755)
    threading.Thread(target=end_with_input, daemon=True).start()
    # As for a process that ends soon.
    gc.disable()
    print(awscli.__version__, flush=True)
    while True:
        client, _ = server.accept()
        if os.fork() == 0:
            server.close()
            try:
                run(client)
            finally:
                os._exit(1)
        client.close()
        forget_ended()
