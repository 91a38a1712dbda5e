"""The AWS CLI, loaded once for very many commands.

Loading it takes most of the processor time of a command. So one process has loaded it, and each
command is a fork of that, with the arguments, the environment, the folder and the open files of who
asked for it.

    loaded-aws.py serve SOCKET             loads it, and serves until it is killed
    loaded-aws.py run SOCKET ARGUMENT...   is `aws ARGUMENT...`
"""
import importlib
import json
import os
import signal
import socket
import struct
import sys
import threading
import time
import traceback

LENGTH = struct.Struct(">I")


def serve(path):
    import gc

    # A process that ends so soon needs no collector of garbage.
    gc.disable()
    from awscli.clidriver import create_clidriver

    create_clidriver()
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(128)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            command(connection)
        connection.close()


def command(connection):
    """Is the process of one command. Never returns."""
    import awscli
    from awscli.clidriver import main

    status = 255
    try:
        take_over(connection)
        # It puts what it finds of its own into the environment.
        importlib.reload(awscli)
        threading.Thread(target=end_with, args=[connection], daemon=True).start()
        status = main()
        sys.stdout.flush()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        connection.sendall(bytes([(status or 0) & 255]))
        os._exit(0)


def take_over(connection):
    """Takes the place of the process at the other end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    begin, files, _, _ = socket.recv_fds(connection, LENGTH.size, 3)
    (length,) = LENGTH.unpack(begin)
    said = b""
    while len(said) < length:
        said += connection.recv(length - len(said))
    told = json.loads(said)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(told["folder"])
    os.environ.clear()
    os.environ.update(told["environment"])
    time.tzset()
    sys.argv = ["aws", *told["arguments"]]


def end_with(connection):
    """A command that was killed does nothing more."""
    connection.recv(1)
    os._exit(1)


def run(path, arguments):
    told = {"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd()}
    said = json.dumps(told).encode()
    connection = connect(path)
    socket.send_fds(connection, [LENGTH.pack(len(said))], [0, 1, 2])
    connection.sendall(said)
    status = connection.recv(1)
    os._exit(status[0] if status else 255)


def connect(path):
    """Waits until the AWS CLI is loaded."""
    connection = socket.socket(socket.AF_UNIX)
    for attempt in range(600):
        try:
            connection.connect(path)
            return connection
        except (FileNotFoundError, ConnectionRefusedError):
            time.sleep(0.1)
    sys.exit("the AWS CLI was not loaded within a minute")


if __name__ == "__main__":
    role, path, *arguments = sys.argv[1:]
    if role == "serve":
        serve(path)
    run(path, arguments)
