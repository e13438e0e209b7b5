"""Serves a Django API on a free port of 127.0.0.1 and prints the port: see main.js."""
import logging
import sys
import threading
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path
from django.views.decorators.http import require_http_methods


def handler(name):
    return HttpResponse(name, headers={"X-Handler": name})


@require_http_methods(["POST"])
def login(request):
    return handler("login")


@require_http_methods(["GET", "HEAD", "DELETE"])
def user(request, id):
    return handler("remove" if request.method == "DELETE" else "read")


urlpatterns = [path("login", login), path("users/<str:id>", user)]


class QuietHandler(WSGIRequestHandler):
    def log_message(self, *args):
        pass


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 128


settings.configure(
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["*"],
    SECRET_KEY="none is needed",
    LOGGING_CONFIG=None,
    MIDDLEWARE=["django.middleware.common.CommonMiddleware"],
)
django.setup()
logging.disable(logging.CRITICAL)
server = Server(("127.0.0.1", 0), QuietHandler)
server.set_app(get_wsgi_application())
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, flush=True)
# The end of the test is that of its input.
sys.stdin.read()
