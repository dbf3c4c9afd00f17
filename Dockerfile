# Warpline for the roles apart: gateway, worker, sink and the commands beside them.
FROM golang:1.26.8-trixie AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# No C is compiled, and yet the binary wants a C library at run time: the embedded engine is opened with dlopen.
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w" -o /out/warpline ./cmd/warpline

# glibc, because of the above; "warpline up" is for machines with npm, so the engine's library is not in here.
FROM debian:13.1-slim
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/warpline /usr/local/bin/warpline
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/warpline"]
CMD ["--help"]
