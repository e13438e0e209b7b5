"""Serves a Flask API on a free port of 127.0.0.1 and prints the port: see main.js."""
import logging
import sys
import threading

from flask import Flask, Response
from werkzeug.serving import make_server

app = Flask(__name__)


def handler(name):
    return Response(name, headers={"X-Handler": name})


@app.post("/login")
def login():
    return handler("login")


@app.get("/users/<id>")
def read(id):
    return handler("read")


@app.delete("/users/<id>")
def remove(id):
    return handler("remove")


logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
server = make_server("127.0.0.1", 0, app, threaded=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.port, flush=True)
# The end of the test is that of its input.
sys.stdin.read()
