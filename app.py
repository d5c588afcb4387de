"""Tritonscope's two faces: launched, it is the ASGI app; for every visitor, it is the script of the pages.

streamlit run app.py      or, on the host and port of the settings:      python app.py
"""

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

if get_script_run_ctx(suppress_warning=True) is None:
    from server import lifespan, middleware, routes, serve, sign_in_secrets

    if __name__ == "__main__":
        serve("app:app")
    else:
        app = st.App(
            __file__,
            lifespan=lifespan,
            routes=routes(),
            middleware=middleware(),
            secrets=sign_in_secrets(),
        )
else:
    from ui import shell

    shell.main()
