"""For the Python program beside a fake: authorities are those of SSL_CERT_FILE, also for libraries that bring their own."""

import os


def where():
    return os.environ["SSL_CERT_FILE"]
