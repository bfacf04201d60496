// Calls to the API. Every failure becomes an ApiError with a sentence for people.

export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly requestId: string | null,
  ) {
    super(message);
  }
}

async function failure(response: Response): Promise<ApiError> {
  try {
    const problem = (await response.json()) as { detail?: string; request_id?: string };
    return new ApiError(problem.detail ?? response.statusText, response.status, problem.request_id ?? null);
  } catch {
    return new ApiError(`the server answered ${response.status}`, response.status, null);
  }
}

export async function request(path: string, init?: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { credentials: 'same-origin', ...init });
  } catch (error) {
    if (init?.signal?.aborted) throw error;
    throw new ApiError('the server does not answer; running jobs continue', 0, null);
  }
  if (!response.ok) throw await failure(response);
  return response;
}

export async function getJson<T>(path: string): Promise<T> {
  return (await (await request(path)).json()) as T;
}

export async function post<T>(path: string, body: object = {}): Promise<T> {
  const init = {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  };
  return (await (await request(path, init)).json()) as T;
}
