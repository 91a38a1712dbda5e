// Node's own HTTP. An `import` of `node:http` reads each property of it, one of which loads an HTTP
// client that nothing here uses, in each thread and each command: longer than all of Node takes to
// start. So it is asked for without one; only types are imported from `node:http`.

export const http = process.getBuiltinModule('node:http');
export const https = process.getBuiltinModule('node:https');
