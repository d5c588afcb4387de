# Images of docker-compose.yml. Targets: `models` fills the volume of example models once, `app` is the dashboard and
# the exporter.
#
# Build arguments: REGISTRY_PREFIX goes before the base image's name (a mirror, with its slash), PIP_INDEX_URL names
# another package index. Both are empty by default; neither reaches a final image.
ARG REGISTRY_PREFIX=

FROM ${REGISTRY_PREFIX}python:3.12.12-slim-bookworm AS python
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /tmp --shell /usr/sbin/nologin tritonscope

# --- the example models --------------------------------------------------------------------------------------------

FROM python AS models-build
ARG PIP_INDEX_URL=
WORKDIR /build
COPY requirements/models.lock requirements/
RUN python -m venv venv \
    && venv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes --only-binary :all: \
        -r requirements/models.lock
COPY sandbox/models/onnx/generate.py .
RUN venv/bin/python generate.py onnx
COPY model_repository model_repository
# A trained export put beside a config stays; what is missing is generated.
RUN for file in onnx/*.onnx; do \
        target="model_repository/$(basename "$file" .onnx)/1/model.onnx"; \
        if [ ! -e "$target" ]; then mv "$file" "$target"; fi; \
    done

FROM python AS models
# An empty volume takes the owner of the folder it is mounted on.
RUN install -d -o tritonscope -g tritonscope /models
COPY --from=models-build /build/model_repository /examples
USER 10001:10001
CMD ["cp", "-R", "/examples/.", "/models/"]

# --- the dashboard and the exporter --------------------------------------------------------------------------------

FROM python AS app-build
ARG PIP_INDEX_URL=
WORKDIR /build
COPY requirements/app.lock requirements/
RUN python -m venv /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes --only-binary :all: \
        -r requirements/app.lock

FROM python AS app
ENV PATH=/opt/venv/bin:$PATH
WORKDIR /srv/tritonscope
COPY --from=app-build /opt/venv /opt/venv
COPY .streamlit .streamlit
COPY telemetry telemetry
COPY collectors collectors
COPY signin signin
COPY control control
COPY history history
COPY signals signals
COPY triage triage
COPY experiments experiments
COPY charts charts
COPY ui ui
COPY pages pages
COPY app.py server.py settings.py runtime.py replay.py LICENSE ./
# The file system is read-only at run time, so the byte code is made here.
RUN python -m compileall -q . \
    && install -d -o tritonscope -g tritonscope /var/lib/tritonscope
USER 10001:10001
EXPOSE 8501 9105
# Not `streamlit run`: it believes X-Forwarded-For of a proxy on loopback, and who connected would be unknown.
ENV TRITONSCOPE_APP_HOST=0.0.0.0
CMD ["python", "app.py"]
