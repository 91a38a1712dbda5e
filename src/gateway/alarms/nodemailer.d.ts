// What of nodemailer is used here: the package has no types of its own.
declare module 'nodemailer' {
  export function createTransport(options: object): {
    sendMail(message: object): Promise<unknown>;
    close(): void;
  };
}
