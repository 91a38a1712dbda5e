// What of smtp-server tests use: the package has no types of its own.
declare module 'smtp-server' {
  import type { EventEmitter } from 'node:events';
  import type { Server } from 'node:net';
  import type { Readable } from 'node:stream';

  type Done = (error?: Error | null, answer?: object) => void;

  export interface SMTPServerOptions {
    secure?: boolean;
    key?: Buffer;
    cert?: Buffer;
    authOptional?: boolean;
    disabledCommands?: string[];
    allowInsecureAuth?: boolean;
    onAuth?(
      auth: { username: string; password: string },
      session: { secure: boolean },
      done: Done,
    ): void;
    onRcptTo?(address: object, session: object, done: Done): void;
    onData?(
      stream: Readable,
      session: { secure: boolean; envelope: { rcptTo: { address: string }[] } },
      done: Done,
    ): void;
  }

  export class SMTPServer extends EventEmitter {
    readonly server: Server;
    constructor(options: SMTPServerOptions);
    listen(port: number, host: string, done: () => void): void;
    close(done: () => void): void;
  }
}
