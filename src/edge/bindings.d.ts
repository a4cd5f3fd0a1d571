// What wasm-bindgen generates from src/entry.rs, as far as the Worker calls it.

declare module '#core' {
  export function initSync(options: { module: WebAssembly.Module }): void;
  export function __wbg_reset_state(): void;
  export function configure(bindings: string): void;
  export function reload(found: string | undefined, nowMs: number): void;
  export function reload_failed(why: string): void;
  export function receive(request: Request, method: string, url: string, nowMs: number, random: number): string;
  export function conclude(ticket: number, status: number, body: string, retryAfter: number, nowMs: number, random: number): string;
  export function conclude_location(ticket: number, answers: string, nowMs: number): string;
  export function renew(note: string, nowMs: number): string;
  export function release(note: string, nowMs: number): string;
  export function slots(method: string, url: string, body: string | undefined, nowMs: number, random: number): string;
  export function settle(charge: string, fields: string, nowMs: number): string;
  export function slot_again(note: string, nowMs: number, random: number): string;
  export function conclude_slot(ticket: number, status: number, body: string, retryAfter: number, nowMs: number, random: number): string;
  export function check(body: string | undefined, nowMs: number, random: number): string;
  export function admin_body(request: Request, method: string, url: string, body: string | undefined, nowMs: number): string;
  export function take_points(): string;
  export function token_rules(): string | undefined;
  export function receive_verified(request: { headers: Headers; cf?: unknown }, method: string, url: string, payload: string | undefined, task: boolean, nowMs: number, random: number): string;
  export function check_verified(body: string, payload: string | undefined, nowMs: number, random: number): string;
  export function cors(origin: string | undefined): string | undefined;
  export function task_attempted(status: number, tried: number, attempts: number, backoffMs: number, retryAfter: number, random: number): number;
  export function task(id: string, text: string | undefined, first: boolean, ttlMs: number, nowMs: number): string;
  export function origin_failed(status: number): string;
}

declare module '#page' {
  export const html: string;
  export const security: string;
}

declare module '*.wasm' {
  const module: WebAssembly.Module;
  export default module;
}
