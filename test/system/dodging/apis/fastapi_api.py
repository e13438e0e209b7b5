"""Serves a FastAPI (and so Starlette) API on a free port of 127.0.0.1 and prints the port: see main.js."""
import os
import socket
import sys
import threading

import uvicorn
from fastapi import FastAPI, Response

app = FastAPI()


def handler(name):
    return Response(name, headers={"X-Handler": name})


@app.post("/login")
def login():
    return handler("login")


@app.get("/users/{id}")
def read(id: str):
    return handler("read")


@app.delete("/users/{id}")
def remove(id: str):
    return handler("remove")


def end_with_input():
    sys.stdin.read()
    os._exit(0)


listener = socket.create_server(("127.0.0.1", 0), backlog=128)
threading.Thread(target=end_with_input, daemon=True).start()
print(listener.getsockname()[1], flush=True)
# Connections are the gateway's to end.
config = uvicorn.Config(app, log_level="critical", timeout_keep_alive=3600)
uvicorn.Server(config).run(sockets=[listener])
