// What the kernel tells of a process (proc(5)).
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

function figure(pid: number, file: string, name: string): number {
  const text = readFileSync(`/proc/${pid}/${file}`, 'utf8');
  const found = new RegExp(`^${name}:\\s*(\\d+)`, 'm').exec(text);
  if (!found) throw new Error(`/proc/${pid}/${file} has no ${name}`);
  return Number(found[1]);
}

/** The most memory that the process has had resident so far, bytes. */
export function peakMemoryBytes(pid: number): number {
  return figure(pid, 'status', 'VmHWM') * 1024;
}

/** Memory that is resident now, bytes. */
export function memoryBytes(pid: number): number {
  return figure(pid, 'status', 'VmRSS') * 1024;
}

/** Bytes that the process has asked the system to read so far, from files and sockets. */
export function readBytes(pid: number): number {
  return figure(pid, 'io', 'rchar');
}

/**
 * How many connections and stored files a process has open. Databases and their logs do not count:
 * they are opened when they are first needed, by whatever runs beside a test, and stay open.
 */
export function openFiles(pid: number): number {
  const folder = `/proc/${pid}/fd`;
  return readdirSync(folder).filter((name) => {
    try {
      return /^socket:|\/extents\//.test(readlinkSync(`${folder}/${name}`));
    } catch {
      // It was closed meanwhile.
      return false;
    }
  }).length;
}
