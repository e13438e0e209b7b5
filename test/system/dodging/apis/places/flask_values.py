"""What Flask's request.values holds."""
import logging
import sys

from flask import Flask, request
from werkzeug.serving import make_server

app = Flask(__name__)


@app.route("/", methods=["GET", "POST"], defaults={"api_key": None})
@app.route("/at/<api_key>", methods=["GET", "POST"])
def read(api_key):
    return request.values.get("api_key", "")


logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
make_server("127.0.0.1", int(sys.argv[1]), app).serve_forever()
